import { createServer, type Socket } from "node:net";
import { KvPublisher } from "./kv-publisher.ts";

// A fake engine for benchmarks, on raw sockets so that it costs little: `node proxy-upstream.ts PORT [EVENTS] [STEP_MS] [KV_PORT] [BLOCKS]`.
// A chat with "stream":true gets 64 events 10 ms apart, any other a fixed answer of 0.8 KB, a GET what routers ask an engine; other
// POSTs 404. With KV_PORT it publishes there what a prefix cache of BLOCKS blocks does with the chats.

const EVENTS = Number(process.argv[3] ?? 64);
const STEP_MS = Number(process.argv[4] ?? 10);
const KV_PORT = Number(process.argv[5] ?? 0);
const TICK_MS = 10;

const kv = KV_PORT === 0 ? undefined : new KvPublisher(Number(process.argv[6] ?? 65_536));
await kv?.bind(KV_PORT);
const HEAD_END = Buffer.from("\r\n\r\n");
const LAST_CHUNK = "0\r\n\r\n";

const base = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m" };
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const event = (delta: object, finish: string | null): string =>
  chunk(
    `data: ${JSON.stringify({ ...base, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] })}\n\n`,
  );
const events = Array.from({ length: EVENTS - 2 }, (_, i) => event({ content: ` token${i}` }, null));
events.push(event({}, "stop"), chunk("data: [DONE]\n\n") + LAST_CHUNK);

const STREAM_HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n";

function json(body: unknown): Buffer {
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: keep-alive\r\ncontent-length: ${Buffer.byteLength(text)}`;
  return Buffer.from(`${head}\r\n\r\n${text}`);
}

const ANSWER = json({
  ...base,
  object: "chat.completion",
  choices: [
    { index: 0, message: { role: "assistant", content: "x".repeat(500) }, finish_reason: "stop", logprobs: null },
  ],
  usage: { prompt_tokens: 250, completion_tokens: 64, total_tokens: 314, prompt_tokens_details: { cached_tokens: 0 } },
});
const MODELS = json({ object: "list", data: [{ id: "m", object: "model", max_model_len: 32_768 }] });
const EMPTY = json({});
const NOT_FOUND = Buffer.from(
  'HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 22\r\n\r\n{"detail":"Not Found"}',
);

interface Stream {
  readonly socket: Socket;
  next: number;
}

/** [ticks of one step] whose turn it is: each stream where it began, so that they are spread over the step. */
const turns: Stream[][] = Array.from({ length: Math.max(1, Math.round(STEP_MS / TICK_MS)) }, () => []);
let tick = 0;
setInterval(() => {
  const at = ++tick % turns.length;
  turns[at] = turns[at]!.filter((stream) => {
    stream.socket.write(events[stream.next++]!);
    return stream.next < EVENTS && !stream.socket.destroyed;
  });
}, TICK_MS);

function answer(socket: Socket, head: string, body: Buffer): void {
  if (head.startsWith("GET ")) {
    socket.write(head.startsWith("GET /v1/models") ? MODELS : EMPTY);
  } else if (!head.startsWith("POST /v1/chat/completions ")) {
    socket.write(NOT_FOUND);
    return;
  }
  // Routers also ask without a body, to see whether the path is there.
  if (body.length > 0)
    kv?.computed((JSON.parse(body.toString("utf8")) as { messages: { role: string; content: string }[] }).messages);
  if (body.subarray(-200).includes('"stream":true')) {
    socket.write(STREAM_HEAD);
    turns[tick % turns.length]!.push({ socket, next: 0 });
  } else {
    socket.write(ANSWER);
  }
}

createServer((socket) => {
  socket.setNoDelay(true);
  socket.on("error", () => {});
  let held = Buffer.alloc(0);
  socket.on("data", (data) => {
    held = held.length === 0 ? data : Buffer.concat([held, data]);
    for (let end = held.indexOf(HEAD_END); end >= 0; end = held.indexOf(HEAD_END)) {
      const head = held.toString("latin1", 0, end);
      const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      if (held.length < end + 4 + length) return;
      answer(socket, head, held.subarray(end + 4, end + 4 + length));
      held = held.subarray(end + 4 + length);
    }
  });
}).listen(Number(process.argv[2]), "127.0.0.1", 1024, () => process.send?.("up"));
