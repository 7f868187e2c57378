import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * An engine with OpenAI's API, and no other, that does what a request's text says in double square brackets: answers with a status
 * (`[[429]]`), says back what it got (`[[echo]]`), breaks (`[[broken]]`), reports an error in its stream (`[[error-event]]`), is silent
 * (`[[hang]]`) or talks until it is left (`[[endless]]`).
 */
export interface ScriptedEngine {
  readonly url: string;
  /** Requests that a client left before their answer's end. */
  readonly left: () => number;
  /** Requests that it was told to be silent to. */
  readonly silent: () => number;
  close(): Promise<void>;
}

export async function startScripted(): Promise<ScriptedEngine> {
  let left = 0;
  let silent = 0;
  const server = createServer(async (req, res) => {
    const body = await bodyOf(req);
    res.on("close", () => {
      if (!res.writableFinished) left++;
    });
    if (body.includes("[[hang]]")) silent++;
    answer(req, body, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    left: () => left,
    silent: () => silent,
    close: () => closed(server),
  };
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

async function bodyOf(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function answer(req: IncomingMessage, body: Buffer, res: ServerResponse): void {
  const path = (req.url ?? "").split("?")[0]!;
  const script = /\[\[([\w-]+)\]\]/.exec(body.toString("latin1"))?.[1] ?? "";
  const status = Number(script);
  if (path === "/v1/models") json(res, 200, { object: "list", data: [{ id: "scripted", object: "model" }] });
  else if (Number.isInteger(status) && status >= 400) refuse(res, status);
  else if (script === "hang") res.on("close", () => {});
  else if (path === "/v1/chat/completions") chat(JSON.parse(body.toString("utf8")), script, res);
  else if (path === "/v1/audio/transcriptions") transcribe(req, body, res);
  else if (path === "/v1/audio/speech") speak(res);
  else if (ECHOES.has(path)) json(res, 200, { path, got: JSON.parse(body.toString("utf8")) });
  else json(res, 404, { detail: "Not Found" });
}

/** Passed on by model; what they answer is not looked at. */
const ECHOES = new Set(["/v1/rerank", "/v1/score", "/pooling", "/tokenize", "/v1/anything/new"]);

function json(res: ServerResponse, status: number, value: object, headers: Record<string, string> = {}): void {
  res.writeHead(status, { "content-type": "application/json", ...headers });
  res.end(JSON.stringify(value));
}

const TYPES: Readonly<Record<number, string>> = { 401: "authentication_error", 429: "rate_limit_error" };

function refuse(res: ServerResponse, status: number): void {
  const type = TYPES[status] ?? (status < 500 ? "invalid_request_error" : "server_error");
  const error = { message: `scripted ${status}`, type, code: String(status), param: null };
  json(res, status, { error }, status === 429 ? { "retry-after": "7" } : {});
}

function transcribe(req: IncomingMessage, body: Buffer, res: ServerResponse): void {
  const text = body.toString("latin1");
  const model = /name="model"\r\n\r\n([^\r]*)/.exec(text)?.[1];
  json(res, 200, { text: `${model} heard ${body.length}`, form: req.headers["content-type"]?.split(";")[0] });
}

function speak(res: ServerResponse): void {
  res.writeHead(200, { "content-type": "audio/mpeg" });
  res.write(Buffer.alloc(1_000, 1));
  res.end(Buffer.alloc(1_000, 2));
}

const ARGUMENTS = JSON.stringify({ city: "Paris" });

/** As vLLM streams a call: its name first, then its arguments in pieces. */
function sayCall(send: (call: object) => void): void {
  send({ index: 0, id: "call_1", type: "function", function: { name: "get_weather", arguments: "" } });
  for (const piece of ARGUMENTS.match(/.{1,4}/gs) ?? []) send({ index: 0, function: { arguments: piece } });
}

interface ChatBody {
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

const HEAD = { id: "chatcmpl-1", created: 1, model: "scripted" };
const USAGE = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };

function chat(body: ChatBody, script: string, res: ServerResponse): void {
  const text = script === "echo" ? JSON.stringify(body) : script === "tool" ? "" : "Hello to you.";
  const finish = script === "tool" ? "tool_calls" : "stop";
  if (body.stream !== true) {
    const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: ARGUMENTS } };
    const message = { role: "assistant", content: text, ...(script === "tool" ? { tool_calls: [call] } : {}) };
    const choices = [{ index: 0, message, finish_reason: finish }];
    json(res, 200, { ...HEAD, object: "chat.completion", choices, usage: USAGE });
    return;
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  const send = (choices: unknown[], more: object = {}) =>
    res.write(`data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices, ...more })}\n\n`);
  const say = (content: string) => send([{ index: 0, delta: { content }, finish_reason: null }]);
  if (script === "endless") {
    const timer = setInterval(() => say("on "), 5);
    res.on("close", () => clearInterval(timer));
    return;
  }
  send([{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]);
  if (script === "tool") sayCall((call) => send([{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }]));
  for (const piece of text.match(/.{1,5}/gs) ?? []) say(piece);
  if (script === "broken") return void setTimeout(() => res.destroy(), 20);
  if (script === "error-event") {
    res.end(`data: ${JSON.stringify({ error: { message: "scripted failure", type: "server_error", code: 500 } })}\n\n`);
    return;
  }
  send([{ index: 0, delta: {}, finish_reason: finish }]);
  if (body.stream_options?.include_usage === true) send([], { usage: USAGE });
  res.end("data: [DONE]\n\n");
}
