/**
 * A counter that steps after each change: one value at once, then one for all changes since the last was taken (a slow
 * reader skips, it never queues). Ends with `signal`.
 */
export async function* watchValues(
  subscribe: (listener: () => void) => () => void,
  signal: AbortSignal,
): AsyncGenerator<number> {
  let version = 1;
  let taken = 0;
  let wake = () => {};
  const end = subscribe(() => {
    version++;
    wake();
  });
  const onAbort = () => wake();
  signal.addEventListener("abort", onAbort);
  try {
    while (!signal.aborted) {
      if (version > taken) {
        taken = version;
        yield taken;
        continue;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    end();
    signal.removeEventListener("abort", onAbort);
  }
}
