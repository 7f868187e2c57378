import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "./metrics.ts";
import { type Attributes, otlpBody, type Span } from "./spans.ts";

const FLUSH_MS = 2_000;
const BATCH_SPANS = 512;
/** About 10 MB; a collector that is gone must not fill the memory. */
const MAX_SPANS = 16_384;
const SEND_MS = 10_000;
const TRIES = 3;

export interface SpanExporterOptions {
  /** Base URL of a collector; `/v1/traces` is added where it has no path. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Attributes;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** State of the exporter, for status. */
export interface SpanExporterStatus {
  readonly endpoint: string;
  readonly waiting: number;
  /** Why the last sending failed. */
  readonly problem?: string;
}

/** @throws CgnError CONFIG_INVALID for no URL */
function tracesUrl(endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    const message = `Cannot send traces to "${endpoint}": it is no URL. Write http://HOST:4318 (tracing.otlp_endpoint)`;
    throw new CgnError("CONFIG_INVALID", message, { problems: [] });
  }
  if (url.pathname === "/") url.pathname = "/v1/traces";
  return url.href;
}

/**
 * Sends spans by OTLP over HTTP, in batches, in the background. What is beyond the bound, or not taken after three tries, is
 * dropped and counted: tracing never slows a request.
 */
export class SpanExporter {
  readonly #o: SpanExporterOptions;
  readonly #url: string;
  #spans: Span[] = [];
  #sending: Promise<void> | undefined;
  #cancel: () => void;
  #problem: string | undefined;
  #closed = false;

  constructor(options: SpanExporterOptions) {
    this.#o = options;
    this.#url = tracesUrl(options.endpoint);
    this.#cancel = options.clock.after(FLUSH_MS, () => this.#tick());
  }

  add(spans: readonly Span[]): void {
    if (this.#closed || this.#spans.length + spans.length > MAX_SPANS) {
      this.#count("dropped", spans.length);
      return;
    }
    this.#spans.push(...spans);
    if (this.#spans.length >= BATCH_SPANS) void this.#flush();
  }

  status(): SpanExporterStatus {
    return {
      endpoint: this.#url,
      waiting: this.#spans.length,
      ...(this.#problem === undefined ? {} : { problem: this.#problem }),
    };
  }

  /** Send what is there, once, and stop. */
  async close(): Promise<void> {
    this.#cancel();
    await this.#sending;
    this.#closed = true;
    await this.#flush();
  }

  #tick(): void {
    void this.#flush();
    this.#cancel = this.#o.clock.after(FLUSH_MS, () => this.#tick());
  }

  /** One sending at a time. */
  #flush(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#spans.length > 0) {
      const batch = this.#spans.splice(0, BATCH_SPANS);
      const sent = await this.#send(batch);
      this.#count(sent ? "sent" : "failed", batch.length);
      if (!sent) return;
    }
  }

  async #send(batch: readonly Span[]): Promise<boolean> {
    const body = JSON.stringify(otlpBody(this.#o.resource, batch));
    for (let tried = 1; ; tried++) {
      const { taken, again, said } = await this.#post(body);
      if (taken) {
        if (this.#problem !== undefined) this.#o.log.info("The trace collector takes spans again");
        this.#problem = undefined;
        return true;
      }
      if (this.#problem === undefined) this.#o.log.warn("Traces cannot be sent", { to: this.#url, said });
      this.#problem = said;
      if (!again || tried >= TRIES || this.#closed) return false;
      await new Promise<void>((resolve) => this.#o.clock.after(500 * tried, resolve));
    }
  }

  /** 429, 502, 503 and 504 may be tried again (OTLP 1.x, "OTLP/HTTP response"). */
  async #post(body: string): Promise<{ readonly taken: boolean; readonly again: boolean; readonly said: string }> {
    try {
      const res = await fetch(this.#url, {
        method: "POST",
        redirect: "manual",
        signal: AbortSignal.timeout(this.#closed ? 1_000 : SEND_MS),
        headers: { ...this.#o.headers, "content-type": "application/json" },
        body,
      });
      await res.arrayBuffer();
      const again = [429, 502, 503, 504].includes(res.status);
      return { taken: res.status >= 200 && res.status < 300, again, said: `it answers ${res.status}` };
    } catch (e) {
      const cause = e instanceof Error && e.cause instanceof Error ? e.cause : (e as Error);
      return { taken: false, again: true, said: cause.message };
    }
  }

  #count(result: string, spans: number): void {
    this.#o.metrics.counter("cgn_router_trace_spans_total", result).inc(spans);
  }
}
