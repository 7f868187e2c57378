/** What a simulated engine can be made to do wrong. */
export type Fault =
  /** The process ends at once, as by SIGKILL. */
  | { readonly kind: "crash" }
  /** vLLM's EngineCore dies under its API server: health 503, streams end with an error, exit 0 after 3.6 s (0.32.0). */
  | { readonly kind: "engine-crash" }
  /** Accepts requests and never answers; `for` says which ones (default all). */
  | { readonly kind: "hang"; readonly for?: "all" | "generation" }
  /** Every step takes `factor` times as long. */
  | { readonly kind: "slow"; readonly factor: number }
  /** The next `count` event batches are not sent live (replay has them). */
  | { readonly kind: "drop-events"; readonly count: number }
  /** The next two event batches change places. */
  | { readonly kind: "reorder-events" }
  /** The next `count` generation requests are answered with status 500. */
  | { readonly kind: "error-500"; readonly count: number }
  /** The next `count` streams are cut off after `chunks` chunks, without an end. */
  | { readonly kind: "cut-stream"; readonly chunks: number; readonly count: number }
  /** Free KV blocks are taken away, so that requests wait. */
  | { readonly kind: "full-cache" }
  /** All of the above end. */
  | { readonly kind: "clear" };

export const FAULT_KINDS = [
  "crash",
  "engine-crash",
  "hang",
  "slow",
  "drop-events",
  "reorder-events",
  "error-500",
  "cut-stream",
  "full-cache",
  "clear",
] as const satisfies readonly Fault["kind"][];

/** Read a fault; counts are 1 where they are missing. @returns what is wrong, as text, when it is none */
export function readFault(value: unknown): Fault | string {
  if (typeof value !== "object" || value === null) return "a fault is an object with a kind";
  const fields = value as Readonly<Record<string, unknown>>;
  const number = (key: string, fallback: number): number => (typeof fields[key] === "number" ? fields[key] : fallback);
  const kind = FAULT_KINDS.find((name) => name === fields["kind"]);
  switch (kind) {
    case undefined:
      return `kind is one of ${FAULT_KINDS.join(", ")}`;
    case "slow": {
      const factor = number("factor", 10);
      return factor > 0
        ? { kind, factor }
        : `factor is ${factor}, and must be above 0: 2 makes every step take twice as long`;
    }
    case "drop-events":
    case "error-500":
      return { kind, count: number("count", 1) };
    case "cut-stream":
      return { kind, chunks: number("chunks", 1), count: number("count", 1) };
    case "hang":
      return { kind, for: fields["for"] === "generation" ? "generation" : "all" };
    default:
      return { kind };
  }
}
