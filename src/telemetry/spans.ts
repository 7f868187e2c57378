export type AttributeValue = string | number | boolean;
export type Attributes = Readonly<Record<string, AttributeValue>>;

/** One piece of work of a trace, ended. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** "" for the first of a trace. */
  readonly parentId: string;
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  /** Milliseconds since the epoch, fractions included. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** What went wrong; undefined: nothing. */
  readonly error: string | undefined;
}

/** Numbers of `SpanKind` and `Status` in opentelemetry/proto/trace/v1 (1.x). */
const KINDS = { internal: 1, server: 2, client: 3 } as const;
const STATUS_ERROR = 2;

function attribute(key: string, value: AttributeValue): object {
  if (typeof value === "string") return { key, value: { stringValue: value } };
  if (typeof value === "boolean") return { key, value: { boolValue: value } };
  // 64-bit integers are texts in protobuf's JSON.
  return Number.isSafeInteger(value)
    ? { key, value: { intValue: String(value) } }
    : { key, value: { doubleValue: value } };
}

const attributes = (all: Attributes): object[] => Object.entries(all).map(([key, value]) => attribute(key, value));

const nanos = (ms: number): string => {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, "0")}`;
};

/** The body of an OTLP/HTTP export in JSON (`ExportTraceServiceRequest`), with ids in hex as OTLP's JSON wants them. */
export function otlpBody(resource: Attributes, spans: readonly Span[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributes(resource) },
        scopeSpans: [
          {
            scope: { name: "cgn" },
            spans: spans.map((s) => ({
              traceId: s.traceId,
              spanId: s.spanId,
              ...(s.parentId === "" ? {} : { parentSpanId: s.parentId }),
              name: s.name,
              kind: KINDS[s.kind],
              startTimeUnixNano: nanos(s.startMs),
              endTimeUnixNano: nanos(s.endMs),
              attributes: attributes(s.attributes),
              ...(s.error === undefined ? {} : { status: { code: STATUS_ERROR, message: s.error } }),
            })),
          },
        ],
      },
    ],
  };
}
