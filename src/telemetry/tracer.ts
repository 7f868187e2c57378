import { randomFillSync } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import type { SpanExporter, SpanExporterStatus } from "./span-exporter.ts";
import type { Attributes, AttributeValue, Span } from "./spans.ts";
import { formatTraceparent, isSampled, parseTraceparent } from "./traceparent.ts";

const pool = Buffer.alloc(4_096);
let poolAt = pool.length;

/** Random hex digits; from a pool, since a call of the generator costs more than a span. */
function randomHex(bytes: number): string {
  if (poolAt + bytes > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const hex = pool.toString("hex", poolAt, poolAt + bytes);
  poolAt += bytes;
  return hex;
}

/** Begins traces of requests. Where nothing is traced there is none, and a request costs nothing. */
export class Tracer {
  readonly #ratio: number;
  readonly #clock: Clock;
  readonly #exporter: Pick<SpanExporter, "add" | "status" | "close">;

  constructor(ratio: number, clock: Clock, exporter: Pick<SpanExporter, "add" | "status" | "close">) {
    this.#ratio = ratio;
    this.#clock = clock;
    this.#exporter = exporter;
  }

  /**
   * Begin the trace of a request, below its caller's span where it names one. The caller's decision to sample holds.
   * @param startedMs by `clock.now()`
   */
  begin(name: string, traceparent: string | undefined, startedMs: number): RequestTrace {
    const caller = parseTraceparent(traceparent);
    const traceId = caller?.traceId ?? randomHex(16);
    const sampled = caller?.sampled ?? isSampled(traceId, this.#ratio);
    return new RequestTrace(this.#clock, sampled ? this.#exporter : undefined, {
      traceId,
      parentId: caller?.spanId ?? "",
      name,
      startedMs,
    });
  }

  status(): SpanExporterStatus & { readonly sampleRatio: number } {
    return { sampleRatio: this.#ratio, ...this.#exporter.status() };
  }

  close(): Promise<void> {
    return this.#exporter.close();
  }
}

interface OpenSpan {
  readonly spanId: string;
  readonly name: string;
  readonly kind: Span["kind"];
  readonly startMs: number;
  readonly attributes: Record<string, AttributeValue>;
}

/** The phases of one request, one after the other, below one span for the whole. One that is not sampled keeps only its ids. */
export class RequestTrace {
  readonly traceId: string;
  readonly sampled: boolean;
  readonly #clock: Clock;
  readonly #exporter: Pick<SpanExporter, "add"> | undefined;
  /** From `clock.now()` to the epoch. */
  readonly #epochMs: number;
  readonly #parentId: string;
  readonly #root: OpenSpan;
  readonly #ended: Span[] = [];
  #phase: OpenSpan | undefined;
  #over = false;

  constructor(
    clock: Clock,
    exporter: Pick<SpanExporter, "add"> | undefined,
    start: { readonly traceId: string; readonly parentId: string; readonly name: string; readonly startedMs: number },
  ) {
    this.traceId = start.traceId;
    this.sampled = exporter !== undefined;
    this.#clock = clock;
    this.#exporter = exporter;
    this.#epochMs = exporter === undefined ? 0 : clock.wall() - clock.now();
    this.#parentId = start.parentId;
    this.#root = { spanId: randomHex(8), name: start.name, kind: "server", startMs: start.startedMs, attributes: {} };
    if (exporter !== undefined) this.#phase = this.#open("accept", start.startedMs);
  }

  /** End the phase before and begin this one. */
  phase(name: string): void {
    if (!this.sampled || this.#over) return;
    const nowMs = this.#clock.now();
    this.#close(nowMs, undefined);
    this.#phase = this.#open(name, nowMs);
  }

  /** Facts about the phase that runs. Never prompts or answers. */
  note(facts: Attributes): void {
    if (this.#phase !== undefined) Object.assign(this.#phase.attributes, facts);
  }

  /** Facts about the whole request. */
  noteRequest(facts: Attributes): void {
    if (this.sampled) Object.assign(this.#root.attributes, facts);
  }

  /** `traceparent` for the engine: what it does happens within the phase that runs. */
  traceparent(): string {
    const spanId = this.#phase?.spanId ?? this.#root.spanId;
    return formatTraceparent({ traceId: this.traceId, spanId, sampled: this.sampled });
  }

  /** End the request. Only the first call counts. @param error what went wrong */
  end(error?: string): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#exporter === undefined) return;
    const nowMs = this.#clock.now();
    this.#close(nowMs, error);
    this.#exporter.add([...this.#ended, this.#span(this.#root, this.#parentId, nowMs, error)]);
  }

  #open(name: string, nowMs: number): OpenSpan {
    const kind = name === "forward" ? "client" : "internal";
    return { spanId: randomHex(8), name, kind, startMs: nowMs, attributes: {} };
  }

  #close(nowMs: number, error: string | undefined): void {
    if (this.#phase !== undefined) this.#ended.push(this.#span(this.#phase, this.#root.spanId, nowMs, error));
    this.#phase = undefined;
  }

  #span(open: OpenSpan, parentId: string, endMs: number, error: string | undefined): Span {
    const { spanId, name, kind, startMs, attributes } = open;
    return {
      traceId: this.traceId,
      spanId,
      parentId,
      name,
      kind,
      startMs: startMs + this.#epochMs,
      endMs: endMs + this.#epochMs,
      attributes,
      error,
    };
  }
}
