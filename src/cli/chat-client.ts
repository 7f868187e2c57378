import { CgnError } from "../core/errors.ts";
import { SseSplitter } from "../http/sse.ts";

/** One message of a conversation. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** How one answer came: figures of the router's headers and of the engine's usage. */
export interface ChatTurn {
  readonly text: string;
  readonly node: string | undefined;
  readonly prefillNode: string | undefined;
  readonly predictedTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
  /** Milliseconds from the request to the first text, and to the end. */
  readonly firstMs: number | undefined;
  readonly totalMs: number;
}

export interface ChatEndpoint {
  /** Base URL, with or without `/v1`. */
  readonly url: string;
  readonly key: string | undefined;
}

export const apiBase = (url: string): string =>
  (/^https?:\/\//.test(url) ? url : `http://${url}`).replace(/\/+$/, "").replace(/\/v1$/, "");

/**
 * Names of the models that an endpoint serves.
 * @throws CgnError DEPENDENCY_UNREACHABLE when nobody answers, BAD_INVOCATION with the endpoint's own words
 */
export async function listModels({ url, key }: ChatEndpoint, signal: AbortSignal): Promise<readonly string[]> {
  const response = await ask(`${apiBase(url)}/v1/models`, { headers: headers(key), signal });
  const { data } = (await response.json()) as { readonly data?: readonly { readonly id: string }[] };
  return (data ?? []).map(({ id }) => id);
}

/**
 * Ask for a streamed answer.
 * @param onText each piece of it as it comes
 * @throws CgnError as `listModels()` does, and UPSTREAM_FAILED when the stream breaks
 */
export async function chatTurn(
  { url, key }: ChatEndpoint,
  body: { readonly model: string; readonly messages: readonly ChatMessage[]; readonly max_tokens?: number },
  now: () => number,
  onText: (text: string) => void,
  signal: AbortSignal,
): Promise<ChatTurn> {
  const started = now();
  const response = await ask(`${apiBase(url)}/v1/chat/completions`, {
    method: "POST",
    headers: { ...headers(key), "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const number = (name: string): number | undefined => {
    const value = response.headers.get(name);
    return value === null ? undefined : Number(value);
  };
  const splitter = new SseSplitter();
  let text = "";
  let firstMs: number | undefined;
  let usage: Usage = {};
  for await (const chunk of response.body ?? []) {
    splitter.push(Buffer.from(chunk), ({ data }) => {
      const event = data === undefined ? undefined : parse(data.toString("utf8"));
      if (event === undefined) return;
      if (event.error !== undefined) throw broken(event.error.message ?? JSON.stringify(event.error));
      usage = event.usage ?? usage;
      const piece = event.choices?.[0]?.delta?.content ?? "";
      if (piece === "") return;
      firstMs ??= now() - started;
      text += piece;
      onText(piece);
    });
  }
  return {
    text,
    node: response.headers.get("x-cgn-node") ?? undefined,
    prefillNode: response.headers.get("x-cgn-prefill-node") ?? undefined,
    predictedTokens: number("x-cgn-predicted-cached-tokens"),
    cachedTokens: usage.prompt_tokens_details?.cached_tokens,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    firstMs,
    totalMs: now() - started,
  };
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
}

interface Event {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message?: string };
}

function parse(data: string): (Omit<Event, "usage"> & { readonly usage?: Usage }) | undefined {
  if (data === "[DONE]") return undefined;
  try {
    const { usage, ...rest } = JSON.parse(data) as Event;
    return usage === null || usage === undefined ? rest : { ...rest, usage };
  } catch {
    return undefined;
  }
}

const headers = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` };

const broken = (said: string): CgnError =>
  new CgnError("UPSTREAM_FAILED", `Cannot read the whole answer: ${said}. Try again`, {}) as CgnError;

async function ask(url: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (e) {
    if (init.signal?.aborted === true) throw e;
    const message = `Cannot reach ${new URL(url).origin}: ${whyUnreached(e)}. Start the endpoint with cgn up, or name it with --url`;
    throw new CgnError("DEPENDENCY_UNREACHABLE", message, { url });
  }
  if (response.ok) return response;
  const said = await response.text();
  const words = parse(said)?.error?.message ?? said.slice(0, 500);
  // Nothing is wrong with the command where the endpoint has nobody to answer.
  if (response.status >= 500)
    throw new CgnError("UPSTREAM_FAILED", `The endpoint fails (${response.status}): ${words}`, {});
  throw new CgnError("BAD_INVOCATION", `The endpoint refuses (${response.status}): ${words}`, {});
}

/** In Node's words, but for what is usual: an untrusted certificate is no port without a listener. */
function whyUnreached(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as (Error & { readonly code?: string }) | undefined) : undefined;
  if (cause?.code === "ECONNREFUSED") return "nothing listens there";
  return cause === undefined || cause.message === "" ? "no answer came" : cause.message;
}
