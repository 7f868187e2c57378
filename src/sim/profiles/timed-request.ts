import type { Clock } from "../../core/clock.ts";
import { CgnError } from "../../core/errors.ts";
import { SseSplitter } from "../../http/sse.ts";
import type { TimedAnswer } from "./measure-engine.ts";

/** An engine to be measured. */
export interface MeasuredEngine {
  /** Base URL, without a path. */
  readonly url: string;
  readonly model: string;
  readonly apiKey: string | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
}

/**
 * Ask for so many tokens, streamed, and note when they come. The prompt is text or token ids.
 * @throws CgnError UPSTREAM_FAILED when the engine does not answer with a stream, or its stream ends with an error
 */
export async function timedRequest(
  engine: MeasuredEngine,
  prompt: string | readonly number[],
  maxTokens: number,
): Promise<TimedAnswer> {
  const sentAt = engine.clock.now();
  const res = await send(engine, {
    model: engine.model,
    prompt,
    max_tokens: maxTokens,
    temperature: 0,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
  });
  const tokenTimes: number[] = [];
  let usage: Usage | undefined;
  const splitter = new SseSplitter();
  for await (const chunk of res.body ?? []) {
    const now = engine.clock.now();
    splitter.push(Buffer.from(chunk), ({ data }) => {
      if (data === undefined || data.equals(DONE)) return;
      const event = JSON.parse(data.toString());
      if (event.error !== undefined) throw failed(engine, JSON.stringify(event.error));
      if (event.usage) usage = event.usage;
      const choice = event.choices?.[0];
      // The chunk that only says why it ended carries no token.
      if (choice !== undefined && !(choice.finish_reason && !choice.text)) tokenTimes.push(now);
    });
  }
  if (usage?.prompt_tokens === undefined || tokenTimes.length === 0)
    throw failed(engine, "it told no usage or no token");
  return {
    sentAt,
    tokenTimes,
    promptTokens: usage.prompt_tokens,
    tokens: usage.completion_tokens ?? tokenTimes.length,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
  };
}

const DONE = Buffer.from("[DONE]");

async function send(engine: MeasuredEngine, body: object): Promise<Response> {
  let res: Response;
  try {
    res = await fetch(`${engine.url}/v1/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(engine.apiKey === undefined ? {} : { authorization: `Bearer ${engine.apiKey}` }),
      },
      body: JSON.stringify(body),
      signal: engine.signal,
    });
  } catch (e) {
    if (engine.signal.aborted) throw e;
    throw failed(engine, e instanceof Error ? String(e.cause ?? e.message) : String(e));
  }
  if (!res.ok) throw failed(engine, `${res.status} ${(await res.text()).slice(0, 300)}`);
  return res;
}

function failed(engine: MeasuredEngine, problem: string): CgnError {
  const remedy = "Is it ready, and does it serve /v1/completions for this model?";
  return new CgnError("UPSTREAM_FAILED", `Cannot measure ${engine.url}: ${problem}. ${remedy}`, { url: engine.url });
}
