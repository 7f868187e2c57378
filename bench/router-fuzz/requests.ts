import type { Dice } from "./dice.ts";
import { mutateBytes, mutateJson } from "./mutate.ts";

interface Base {
  readonly path: string;
  readonly body: object | undefined;
}

const chat = (more: object = {}): object => ({
  model: "m",
  messages: [
    { role: "system", content: "You are brief." },
    { role: "user", content: [{ type: "text", text: "What is the capital of France?" }] },
    { role: "assistant", content: "Paris." },
    { role: "user", content: "And of Italy? ✓" },
  ],
  ...more,
});
const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];

const BASES: readonly Base[] = [
  { path: "/v1/chat/completions", body: chat() },
  { path: "/v1/chat/completions", body: chat({ stream: true }) },
  { path: "/v1/chat/completions", body: chat({ model: "s", stream: true, stream_options: { include_usage: true } }) },
  { path: "/v1/chat/completions", body: chat({ model: "s", tools, tool_choice: "auto", n: 2, logprobs: true }) },
  { path: "/v1/completions", body: { model: "m", prompt: "Once upon a time", stream: true, max_tokens: 5 } },
  { path: "/v1/completions", body: { model: "s", prompt: ["a", "b"], echo: true } },
  { path: "/v1/embeddings", body: { model: "m", input: ["a", "b"] } },
  { path: "/v1/messages", body: chat({ max_tokens: 5, system: "s" }) },
  { path: "/v1/responses", body: { model: "m", input: "Hi", instructions: "Be brief", stream: true } },
  { path: "/v1/rerank", body: { model: "m", query: "q", documents: ["a", "b"] } },
  { path: "/tokenize", body: { model: "m", prompt: "a" } },
  { path: "/v1/models", body: undefined },
  { path: "/v1/unknown?model=m", body: { model: "m" } },
];

const HEADERS: readonly string[] = [
  "x-request-id: abc\r\n",
  "x-cgn-session: s\r\n",
  "x-cgn-priority: 3\r\n",
  "x-cgn-deadline-ms: 100000\r\n",
  "authorization: Bearer x\r\n",
  "connection: keep-alive, x-a\r\nx-a: 1\r\n",
  "accept-encoding: gzip\r\n",
  "anthropic-version: 2023-06-01\r\n",
  "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
];

export interface FuzzRequest {
  /** Latin-1. */
  readonly bytes: string;
  /** It is a request as it should be: an answer must come. */
  readonly valid: boolean;
}

/** A request with a body whose length is right; the rest may be anything where `wild`. */
export function makeRequest(dice: Dice, wild: boolean): FuzzRequest {
  const { path, body } = dice.of(BASES);
  const kind = wild ? dice.roll() : 1;
  const changed = kind < 0.55 && body !== undefined ? mutateJson(dice, body) : body;
  let text = changed === undefined ? "" : Buffer.from(JSON.stringify(changed)).toString("latin1");
  if (kind >= 0.55 && kind < 0.8) text = mutateBytes(dice, text);
  const headers = dice.chance(0.3) ? dice.of(HEADERS) : "";
  const method = changed === undefined ? "GET" : "POST";
  const type = text.includes("\r\n--") ? "multipart/form-data; boundary=x" : "application/json";
  const head = `${method} ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\n${headers}content-length: ${text.length}\r\n\r\n`;
  const bytes = head + text;
  return { bytes: kind >= 0.8 && kind < 1 ? mutateBytes(dice, bytes) : bytes, valid: kind === 1 };
}
