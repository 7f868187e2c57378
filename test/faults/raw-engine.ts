import { createServer, type Server, type Socket } from "node:net";

/** A request as the engine got it. */
export interface RawRequest {
  /** The n-th of this engine, from 1. */
  readonly n: number;
  /** The n-th of its connection, from 1. */
  readonly nth: number;
  readonly head: string;
  readonly body: string;
}

/** What an engine does with a request: it writes bytes, or does not. */
export type Script = (request: RawRequest, socket: Socket) => void;

/** An engine on a bare socket: nothing keeps it from answering wrongly. */
export interface RawEngine {
  readonly url: string;
  readonly port: number;
  /** For requests that are read whole. Health and model questions are answered beside it. */
  script: Script;
  /** For new connections, before anything is read; true: it was dealt with. */
  onConnection: ((socket: Socket) => boolean) | undefined;
  /** Called with each head before its body is read; true: it was dealt with. */
  onHead: ((socket: Socket) => boolean) | undefined;
  readonly requests: RawRequest[];
  /** Connections of generation requests that ended before the engine had ended its answer. */
  cut: number;
  readonly sockets: ReadonlySet<Socket>;
  /** What its health endpoint says. */
  healthy: boolean;
  /** Stop listening and cut all connections; nobody listens there then. */
  kill(): Promise<void>;
  /** Listen again at the same port. */
  revive(): Promise<void>;
}

const HEAD_END = "\r\n\r\n";

/**
 * Ports below those that systems give out by themselves: where an engine was killed nobody else may listen a moment later, or its
 * case meets a stranger. No port is taken twice, test processes that run at the same time have ranges of their own, and engines' side
 * ports (from 20,000 on) are not among them.
 */
const POOL = Number(process.env["VITEST_POOL_ID"] ?? 7) % 8;
let nextPort = 10_000 + POOL * 1_200 + ((process.pid * 37) % 700);

export async function startRawEngine(script: Script): Promise<RawEngine> {
  const sockets = new Set<Socket>();
  let server: Server | undefined;
  let port = 0;
  const listen = (): Promise<void> =>
    new Promise((resolve, reject) => {
      server = createServer({ allowHalfOpen: true }, (socket) => serve(engine, sockets, socket));
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
  for (let tries = 0; ; tries++) {
    port = nextPort++;
    try {
      await listen();
      break;
    } catch (e) {
      if (tries === 100) throw e;
    }
  }
  const engine: RawEngine = {
    url: `http://127.0.0.1:${port}`,
    port,
    script,
    onConnection: undefined,
    onHead: undefined,
    requests: [],
    cut: 0,
    sockets,
    healthy: true,
    kill: () =>
      new Promise((resolve) => {
        server?.close(() => resolve());
        for (const socket of sockets) socket.resetAndDestroy();
      }),
    revive: listen,
  };
  return engine;
}

function serve(engine: RawEngine, sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  let nth = 0;
  let open = 0;
  socket.on("close", () => {
    sockets.delete(socket);
    if (open > 0) engine.cut++;
  });
  socket.on("error", () => {});
  socket.on("end", () => socket.end());
  if (engine.onConnection?.(socket) === true) return;
  let text = "";
  let headSeen = false;
  socket.on("data", (bytes: Buffer) => {
    text += bytes.toString("latin1");
    for (;;) {
      const end = text.indexOf(HEAD_END);
      if (end < 0) return;
      const head = text.slice(0, end);
      if (!headSeen && !head.startsWith("GET")) {
        headSeen = true;
        if (engine.onHead?.(socket) === true) {
          socket.removeAllListeners("data");
          socket.resume();
          return;
        }
      }
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      const body = Buffer.from(text.slice(end + 4, end + 4 + length), "latin1").toString("utf8");
      text = text.slice(end + 4 + length);
      headSeen = false;
      // The router's own questions are no part of a case.
      if (/^GET \/(health|v1\/models|version|metrics|props) /.test(head)) {
        socket.write(reply(engine.healthy ? 200 : 503, "{}"));
        continue;
      }
      const request = { n: engine.requests.length + 1, nth: ++nth, head, body };
      engine.requests.push(request);
      open++;
      done.set(socket, () => void open--);
      engine.script(request, socket);
    }
  });
}

const done = new WeakMap<Socket, () => void>();

/** The engine has said all that it wanted: what happens to the connection now is no cut. */
export function finished(socket: Socket): void {
  done.get(socket)?.();
}

/** An answer with a length. */
export function reply(status: number, body: string, headers = ""): string {
  return `HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export const TEXT = "The capital is Paris.";
const USAGE = '"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}';
export const WHOLE = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"${TEXT}"},"finish_reason":"stop"}],${USAGE}}`;

/** Answers as an engine should: whole, or a stream of four events and `[DONE]`. */
export const good: Script = ({ body }, socket) => {
  socket.write(body.includes('"stream":true') ? STREAM_HEAD + chunk(STREAM) + LAST_CHUNK : reply(200, WHOLE));
  finished(socket);
};

export const STREAM_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
export const LAST_CHUNK = "0\r\n\r\n";
export const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
export const event = (content: string, finish: string | null = null): string =>
  `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":${JSON.stringify(content)}},"finish_reason":${finish === null ? "null" : `"${finish}"`}}]}\n\n`;
export const DONE = "data: [DONE]\n\n";
export const STREAM = `${event("The capital")}${event(" is")}${event(" Paris.")}${event("", "stop")}${DONE}`;
