const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Read a duration such as `800ms`, `5s`, `1.5m`, `1h30m`.
 * @returns milliseconds, or undefined when the text is none (a bare number, a negative one, an unknown unit).
 */
export function parseDurationMs(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, amount = "0", unit = "ms"] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(amount) * (UNIT_MS[unit] ?? 1);
  }
  return total;
}

/** Print milliseconds the way they are written in TOML: the largest unit that divides them. */
export function formatDurationMs(ms: number): string {
  for (const unit of ["d", "h", "m", "s"] as const) {
    const size = UNIT_MS[unit]!;
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

export const GIB = 1024 ** 3;
