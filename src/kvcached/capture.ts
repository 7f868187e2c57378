import { randomBytes } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import type { EngineKind } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import type { KvSource } from "../core/worker.ts";
import { ENGINES, findEngine } from "../engines/registry.ts";
import { startCaptureProxy } from "./capture-proxy.ts";
import { batchToJson, openCapture } from "./capture-writer.ts";
import { createRedactor } from "./redact-blocks.ts";
import type { ModelText } from "./vocabularies.ts";
import { ZmqSource } from "./zmq-source.ts";

export interface CaptureOptions {
  /** Base URL of the engine. */
  readonly engine: string;
  readonly kind: EngineKind;
  readonly kv: Extract<KvSource, { type: "events" }>;
  readonly out: string;
  /** Where clients (or a router) send their requests to. */
  readonly listen: { readonly host: string; readonly port: number };
  /** Vocabulary and template; undefined keeps content: token ids and prompts are written as they are. */
  readonly redactWith: ModelText | undefined;
  readonly clock: Clock;
}

export interface RunningCapture {
  readonly port: number;
  counts(): { readonly frames: number; readonly requests: number; readonly reported: number };
  close(): Promise<void>;
}

/**
 * Record an engine's KV events, in order, and the chats that pass through the proxy, in the layout that `cgn kv verify` reads.
 * @throws CgnError STORAGE_UNUSABLE, PORT_IN_USE, NOT_SUPPORTED
 */
export async function startCapture(options: CaptureOptions): Promise<RunningCapture> {
  const { kv, clock, redactWith } = options;
  const decode = findEngine(options.kind).decodeEvents;
  if (decode === undefined) {
    throw new CgnError("NOT_SUPPORTED", `Cannot capture ${options.engine}: ${options.kind} publishes no KV events`, {});
  }
  const writer = await openCapture(options.out);
  const redactor = redactWith === undefined ? undefined : createRedactor(randomBytes(32), redactWith.vocabulary);
  let last = 0;
  // Always later than the row before: a capture is replayed in the order of its times, across both files.
  const now = () => (last = Math.max(clock.wall() / 1000, last + 1e-6));
  const counts = { frames: 0, requests: 0, reported: 0 };
  const raw = new WeakMap<KvEventBatch, Uint8Array>();
  writer.request({ t: now(), kind: "phase", phase: "start", engine: options.kind, content: redactor === undefined });
  const source = new ZmqSource({
    endpoint: kv.endpoint,
    replay: kv.replay,
    topic: kv.topic,
    clock,
    decode(payload) {
      const batch = decode(payload);
      // Kept as it came, so that the decoder is verified too.
      if (redactor === undefined) raw.set(batch, payload);
      return batch;
    },
    apply(batch, seq) {
      counts.frames++;
      const payload = raw.get(batch);
      const content =
        payload === undefined
          ? { batch: batchToJson(redactor === undefined ? batch : redactor.batch(batch)) }
          : { payload_b64: Buffer.from(payload).toString("base64") };
      writer.frame({ t: now(), topic: kv.topic, seq, ...content });
    },
    clear: (why) => writer.request({ t: now(), kind: "note", note: `source cleared: ${why}` }),
    changed: () => {},
  });
  const prompts = new Map<number, Readonly<Record<string, unknown>>>();
  const proxy = await startCaptureProxy(options.engine, options.listen, {
    begin(n, body) {
      writer.request({ t: now(), kind: "begin", n });
      prompts.set(n, redactor === undefined ? { body } : promptOf(body, redactWith, redactor));
    },
    end(n, status, { usage, text, promptTokenIds }) {
      counts.requests++;
      const said = redactor === undefined ? { text, prompt_token_ids: promptTokenIds } : {};
      const details = (usage as { prompt_tokens_details?: { cached_tokens?: unknown } } | undefined)
        ?.prompt_tokens_details;
      if (typeof details?.cached_tokens === "number") counts.reported++;
      writer.request({ t: now(), kind: "chat", n, status, ...prompts.get(n), ...said, usage });
      prompts.delete(n);
    },
    reset: () => writer.request({ t: now(), kind: "reset_prefix_cache" }),
  }).catch(async (error) => {
    await writer.close();
    throw error;
  });
  source.start();
  return {
    port: proxy.port,
    counts: () => ({ ...counts }),
    async close() {
      await proxy.close();
      source.close();
      await writer.close();
    },
  };
}

function promptOf(
  body: Readonly<Record<string, unknown>>,
  text: ModelText | undefined,
  redactor: ReturnType<typeof createRedactor>,
): Readonly<Record<string, unknown>> {
  const salt = typeof body["cache_salt"] === "string" ? body["cache_salt"] : "";
  try {
    const rendered = text?.renderer?.render(body);
    if (rendered !== undefined && "bytes" in rendered) return { prompt: redactor.prompt(salt, rendered.bytes) };
  } catch {
    // A chat that the template refuses: the engine will say so.
  }
  return {};
}

/**
 * Ask an engine where it publishes its KV events.
 * @throws CgnError NOT_SUPPORTED when it tells of none, DEPENDENCY_UNREACHABLE when it does not answer
 */
export async function askEventSource(
  engine: string,
  kind: EngineKind | undefined,
): Promise<{ readonly kind: EngineKind; readonly kv: Extract<KvSource, { type: "events" }> }> {
  const host = new URL(engine).hostname;
  for (const candidate of kind === undefined ? ENGINES : [findEngine(kind)]) {
    const { kvSources } = candidate.probe;
    if (kvSources === undefined) continue;
    const reply = await fetch(`${engine}${kvSources.path}`, { signal: AbortSignal.timeout(5_000) }).catch((cause) => {
      const message = `Cannot ask ${engine} for its event source: ${cause instanceof Error ? cause.message : cause}. Is it running?`;
      throw new CgnError("DEPENDENCY_UNREACHABLE", message, {}, { cause });
    });
    if (!reply.ok) continue;
    const body = await reply.text();
    const events = safely(() => kvSources.parse(body, host))?.find((kv) => kv.type === "events");
    if (events?.type === "events") return { kind: candidate.kind, kv: events };
  }
  const right = "Start it with KV events on, or name its endpoint with --events";
  throw new CgnError("NOT_SUPPORTED", `Cannot capture ${engine}: it tells of no KV event source. ${right}`, {});
}

function safely<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
