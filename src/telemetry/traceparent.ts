/** W3C Trace Context, version 00: where a request stands in a trace. */
export interface TraceContext {
  /** 32 hex digits, not all zero. */
  readonly traceId: string;
  /** 16 hex digits, not all zero: the caller's span. */
  readonly spanId: string;
  readonly sampled: boolean;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * Read a `traceparent` header. A later version is read as 00, as the standard says; what does not fit is as good as absent.
 * Source: W3C Trace Context (Recommendation of 2021), section 3.2.
 */
export function parseTraceparent(header: string | undefined): TraceContext | undefined {
  const found = TRACEPARENT.exec(header ?? "");
  if (found === null) return undefined;
  const [, version = "", traceId = "", spanId = "", flags = "", more] = found;
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}

/** Is a trace among the share that is kept? By its id, so that all services of one ratio keep the same. */
export function isSampled(traceId: string, ratio: number): boolean {
  if (ratio >= 1) return true;
  // The last 7 bytes are random in every generator (trace context level 2).
  return Number.parseInt(traceId.slice(-13), 16) < ratio * 2 ** 52;
}
