import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expectedWords } from "./soak-text.ts";

// An engine for the soak: `node soak-engine.ts PORT SLOTS TOKEN_MS`. What it says follows from the prompt, so a client knows
// every word; it goes on with an answer that it is given the beginning of; it has so many slots, and a queue before them.
const [port = 0, slots = 8, tokenMs = 20] = process.argv.slice(2).map(Number);

interface Body {
  readonly stream?: boolean;
  readonly max_tokens: number;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly continue_final_message?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
}

let running = 0;
const queue: (() => void)[] = [];

function slot(res: ServerResponse, work: () => void): void {
  const begin = (): void => {
    if (res.destroyed) {
      next();
      return;
    }
    running++;
    res.once("close", () => {
      running--;
      next();
    });
    work();
  };
  const next = (): void => {
    if (running < slots) queue.shift()?.();
  };
  if (running < slots) begin();
  else queue.push(begin);
}

const base = { id: `soak-${process.pid}`, object: "chat.completion.chunk", created: 1, model: "m" };

function answer(body: Body, res: ServerResponse): void {
  const { messages, max_tokens: most } = body;
  const last = messages.at(-1);
  const given = body.continue_final_message === true && last?.role === "assistant" ? last.content : "";
  const asked = given === "" ? messages : messages.slice(0, -1);
  const before = given === "" ? 0 : given.split(" ").length;
  const tokens = expectedWords(asked.at(-1)?.content ?? "", before + most)
    .slice(before)
    .map((word, i) => (before + i === 0 ? word : ` ${word}`));
  const prompt = messages.reduce((sum, { content }) => sum + content.split(" ").length, 0);
  const usage = { prompt_tokens: prompt, completion_tokens: most, total_tokens: prompt + most };
  if (body.stream !== true) {
    const timer = setTimeout(() => {
      const message = { role: "assistant", content: tokens.join("") };
      res.writeHead(200, { "content-type": "application/json" });
      res.end(JSON.stringify({ ...base, choices: [{ index: 0, message, finish_reason: "length" }], usage }));
    }, tokenMs * tokens.length);
    res.once("close", () => clearTimeout(timer));
    return;
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  const send = (delta: object, finish: string | null): void =>
    void res.write(`data: ${JSON.stringify({ ...base, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
  send({ role: "assistant", content: "" }, null);
  let at = 0;
  const timer = setInterval(() => {
    if (at < tokens.length) {
      send({ content: tokens[at++] }, null);
      return;
    }
    clearInterval(timer);
    send({}, "length");
    if (body.stream_options?.include_usage === true)
      res.write(`data: ${JSON.stringify({ ...base, choices: [], usage })}\n\n`);
    res.end("data: [DONE]\n\n");
  }, tokenMs);
  res.once("close", () => clearInterval(timer));
}

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  if (req.method === "GET") {
    const known = req.url === "/health" || req.url === "/v1/models";
    res.writeHead(known ? 200 : 404, { "content-type": "application/json" });
    res.end(JSON.stringify({ object: "list", data: [{ id: "m", object: "model", max_model_len: 32_768 }] }));
    return;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
  slot(res, () => answer(body, res));
}

createServer((req, res) => void handle(req, res).catch(() => res.destroy())).listen(port, "127.0.0.1");
