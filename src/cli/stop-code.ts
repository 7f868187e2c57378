/** Exit code of a daemon that was asked to stop and did: 130 for Ctrl-C, 0 for SIGTERM and the rest (a clean drain). */
export function stopCode(signal: AbortSignal): number {
  return signal.reason === "SIGINT" ? 130 : 0;
}

/** Resolves once a stop was asked for. */
export function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Exit code of a command that was broken off before its result: 143 for SIGTERM, 130 for Ctrl-C and the rest. */
export function brokenOff(signal: AbortSignal): number {
  return signal.reason === "SIGTERM" ? 143 : 130;
}
