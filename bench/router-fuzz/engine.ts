import { createServer, type Socket } from "node:net";
import type { Dice } from "./dice.ts";
import { mutateBytes } from "./mutate.ts";

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const event = (delta: object, finish: string | null): string =>
  `data: ${JSON.stringify({ id: "x", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const whole = (status: number, body: object, headers = ""): string => {
  const text = JSON.stringify(body);
  return `HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\n${headers}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};
const usage = {
  prompt_tokens: 30,
  completion_tokens: 3,
  total_tokens: 33,
  prompt_tokens_details: { cached_tokens: 16 },
};
const STREAM = [
  event({ role: "assistant", content: "" }, null),
  ": ping\n\n",
  event({ content: "Rome" }, null),
  event({ content: "." }, null),
  event({}, "stop"),
  `data: ${JSON.stringify({ id: "x", choices: [], usage })}\n\n`,
  "data: [DONE]\n\n",
];
const SSE = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

const WHOLE = whole(200, {
  id: "x",
  choices: [{ index: 0, message: { role: "assistant", content: "Rome." }, finish_reason: "stop" }],
  usage,
});
const STREAMED = `${SSE}${STREAM.map(chunk).join("")}0\r\n\r\n`;
const OTHERS: readonly string[] = [
  whole(400, { error: { message: "no", code: 400 } }),
  whole(429, { error: { message: "slow" } }, "retry-after: 1\r\n"),
  whole(503, { error: "loading" }),
  `${SSE}${chunk('data: {"error":{"message":"died","code":500}}\n\n')}0\r\n\r\n`,
  "HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ntransfer-encoding: chunked\r\n\r\n5\r\nRIFFx\r\n0\r\n\r\n",
  "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{}",
  "HTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 307 X\r\nlocation: /v1/y\r\ncontent-length: 0\r\n\r\n",
];

/** An engine that answers as it should, or, where `wild`, anything. Health questions are always answered. */
export function startFuzzEngine(dice: Dice, wild: boolean): Promise<{ readonly url: string; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    let text = "";
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (bytes: Buffer) => {
      text += bytes.toString("latin1");
      for (;;) {
        const end = text.indexOf("\r\n\r\n");
        if (end < 0) return;
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
        if (text.length < end + 4 + length) return;
        const health = text.startsWith("GET /health");
        const streams = /"stream": ?true/.test(text.slice(end, end + 4 + length));
        text = text.slice(end + 4 + length);
        if (health || !wild) socket.write(health ? whole(200, {}) : streams ? STREAMED : WHOLE);
        else answerWildly(dice, socket, streams);
      }
    });
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      resolve({
        url: `http://127.0.0.1:${port}`,
        close() {
          server.close();
          for (const socket of sockets) socket.destroy();
        },
      });
    });
  });
}

function answerWildly(dice: Dice, socket: Socket, streams: boolean): void {
  const kind = dice.roll();
  const base = dice.chance(0.8) ? (streams ? STREAMED : WHOLE) : dice.of(OTHERS);
  const bytes = Buffer.from(kind < 0.8 ? mutateBytes(dice, base) : base, "latin1");
  // In one piece, in two, and then perhaps an end or a cut.
  const at = dice.chance(0.5) ? bytes.length : dice.below(bytes.length + 1);
  socket.write(bytes.subarray(0, at));
  if (at < bytes.length) setImmediate(() => socket.writable && socket.write(bytes.subarray(at)));
  const end = dice.roll();
  if (end < 0.1) setImmediate(() => socket.end());
  else if (end < 0.2) setImmediate(() => socket.resetAndDestroy());
}
