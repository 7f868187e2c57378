import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { QualityEngine } from "./engine.ts";
import { blockNames, tokenize } from "./trace.ts";

/** How an engine counts: peers take words for tokens; a router that decodes token ids needs bytes. */
export type TokenForm = "words" | "bytes";

/** Bytes of a word with its space. */
const WORD_BYTES = 6;
const MODEL = "m";

interface ChatBody {
  readonly messages?: readonly { readonly content?: unknown }[];
  readonly prompt?: unknown;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
  readonly max_tokens?: number;
  readonly user?: string;
}

/** Serve an engine as vLLM does, as far as routers ask for it. */
export function serveEngine(engine: QualityEngine, port: number, form: TokenForm): Promise<Server> {
  const server = createServer(async (req, res) => {
    const path = (req.url ?? "/").split("?")[0]!;
    if (req.method === "GET") {
      answerGet(engine, path, res);
      return;
    }
    const body = await readJson(req);
    if (body === undefined) sendJson(res, { error: { message: "bad json" } }, 400);
    else if (path.endsWith("/render") || path.endsWith("/tokenize")) answerTokens(body, form, res);
    else if (path.endsWith("/chat/completions")) answerChat(engine, body, form, res);
    else sendJson(res, { detail: "Not Found" }, 404);
  });
  server.keepAliveTimeout = 120_000;
  return new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(server)));
}

function answerGet(engine: QualityEngine, path: string, res: ServerResponse): void {
  if (path === "/metrics") {
    res.writeHead(200, { "content-type": "text/plain; version=0.0.4" });
    res.end(metricsOf(engine));
    return;
  }
  if (path === "/entries") {
    const { entries, steps, lagSumMs, busyMs } = engine;
    sendJson(res, { entries, steps, lagSumMs, busyMs });
    return;
  }
  const known = ANSWERS[path];
  sendJson(res, known ?? {}, known === undefined ? 404 : 200);
}

/** What vLLM and SGLang say of themselves, as far as routers ask. */
const ANSWERS: Readonly<Record<string, object>> = (() => {
  const model = { id: MODEL, object: "model", created: 1, owned_by: "vllm", root: MODEL, max_model_len: 131_072 };
  const server = { model_path: MODEL, served_model_name: MODEL, tp_size: 1, dp_size: 1, version: "0.5" };
  const info = { model_path: MODEL, tokenizer_path: MODEL, is_generation: true };
  return {
    "/health": {},
    "/v1/models": { object: "list", data: [model] },
    "/version": { version: "0.32.0" },
    "/get_server_info": server,
    "/server_info": server,
    "/get_model_info": info,
    "/model_info": info,
  };
})();

function metricsOf(engine: QualityEngine): string {
  const line = (name: string, value: number) => `# TYPE ${name} gauge\n${name}{model_name="${MODEL}"} ${value}\n`;
  return (
    line("vllm:num_requests_running", engine.running) +
    line("vllm:num_requests_waiting", engine.waiting) +
    line("vllm:kv_cache_usage_perc", engine.usedShare)
  );
}

function answerTokens(body: ChatBody, form: TokenForm, res: ServerResponse): void {
  const text = textOf(body);
  const tokens = form === "bytes" ? [...Buffer.from(text)] : tokenize(text);
  sendJson(res, { request_id: "r", token_ids: tokens, tokens, count: tokens.length, max_model_len: 131_072 });
}

function answerChat(engine: QualityEngine, body: ChatBody, form: TokenForm, res: ServerResponse): void {
  const text = textOf(body);
  const tokens = tokenize(text);
  const each = form === "bytes" ? WORD_BYTES : 1;
  const outputTokens = Math.max(1, body.max_tokens ?? 16);
  const head = `"id":"c","object":"chat.completion.chunk","created":1,"model":"${MODEL}"`;
  const usage = () => {
    // It has just ended: its entry is the last.
    const entry = engine.entries.at(-1)!;
    return {
      prompt_tokens: tokens.length * each,
      completion_tokens: outputTokens,
      total_tokens: tokens.length * each + outputTokens,
      prompt_tokens_details: { cached_tokens: entry.cachedBlocks * engine.size.blockTokens * each },
    };
  };
  const abort = engine.submit({
    id: body.user ?? "",
    promptTokens: tokens.length,
    outputTokens,
    blocks: blockNames(tokens, engine.size.blockTokens),
    text,
    onToken(count) {
      if (body.stream !== true) return;
      if (count === 1) res.writeHead(200, { "content-type": "text/event-stream" });
      const role = count === 1 ? '"role":"assistant",' : "";
      const finish = count === outputTokens ? '"length"' : "null";
      res.write(
        `data: {${head},"choices":[{"index":0,"delta":{${role}"content":" t"},"finish_reason":${finish}}]}\n\n`,
      );
    },
    onEnd() {
      if (body.stream === true) {
        if (body.stream_options?.include_usage === true)
          res.write(`data: {${head},"choices":[],"usage":${JSON.stringify(usage())}}\n\n`);
        res.end("data: [DONE]\n\n");
        return;
      }
      const choices = [{ index: 0, message: { role: "assistant", content: "t" }, finish_reason: "length" }];
      sendJson(res, { id: "c", object: "chat.completion", created: 1, model: MODEL, choices, usage: usage() });
    },
  });
  res.on("close", () => {
    if (!res.writableEnded) abort();
  });
}

function textOf({ messages, prompt }: ChatBody): string {
  return messages === undefined ? contentText(prompt) : messages.map(({ content }) => contentText(content)).join("");
}

/** A text, or parts with texts, which vLLM joins by line ends. */
function contentText(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content
    .map((part: { readonly text?: unknown }) => (typeof part.text === "string" ? part.text : ""))
    .join("\n");
}

async function readJson(req: IncomingMessage): Promise<ChatBody | undefined> {
  const parts: Buffer[] = [];
  for await (const part of req) parts.push(part as Buffer);
  try {
    return JSON.parse(Buffer.concat(parts).toString()) as ChatBody;
  } catch {
    return undefined;
  }
}

function sendJson(res: ServerResponse, value: unknown, status = 200): void {
  const body = JSON.stringify(value);
  res.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  res.end(body);
}
