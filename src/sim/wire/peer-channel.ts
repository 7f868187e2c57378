import { connect, createServer, type Server, type Socket } from "node:net";
import { CgnError } from "../../core/errors.ts";

/**
 * The line between two simulated engines of a prefill → decode pair: lines of JSON over TCP at the place where the real engines
 * have their side channel (NIXL) or bootstrap server (SGLang). What the real ones say there is their own; who reaches whom, and
 * what happens when not, is the same.
 */
export class PeerChannel {
  readonly #answer: (message: Message) => Promise<object>;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  constructor(answer: (message: Message) => Promise<object>) {
    this.#answer = answer;
  }

  /** @throws CgnError PORT_IN_USE */
  async open(host: string, port: number): Promise<void> {
    const server = createServer((socket) => this.#serve(socket));
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once("error", (e) => {
        const message = `Cannot open the engine's side channel on ${host}:${port}: ${e.message}. Free the port, or choose another`;
        reject(new CgnError("PORT_IN_USE", message, { port }, { cause: e }));
      });
      server.listen(port, host, resolve);
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const server = this.#server;
    if (server !== undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    onLines(socket, (line) => {
      void this.#answer(line).then((answer) => {
        if (socket.writable) socket.write(`${JSON.stringify(answer)}\n`);
      });
    });
  }
}

export type Message = Readonly<Record<string, unknown>>;

/** Ask the engine at an address. The promise fails when nobody is there, or it leaves before it answers. */
export function askPeer(
  host: string,
  port: number,
  message: object,
): { readonly answer: Promise<Message>; cancel(): void } {
  const socket = connect({ host, port });
  const answer = new Promise<Message>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the peer closed the connection")));
    socket.on("connect", () => socket.write(`${JSON.stringify(message)}\n`));
    onLines(socket, (line) => {
      resolve(line);
      socket.end();
    });
  });
  // Whoever cancels does not listen any more.
  answer.catch(() => {});
  return { answer, cancel: () => void socket.destroy() };
}

/** More in one line than any message has: somebody else is there. */
const MOST_CHARACTERS = 65_536;

function onLines(socket: Socket, take: (message: Message) => void): void {
  let text = "";
  socket.setEncoding("utf8");
  socket.on("data", (part: string) => {
    text += part;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n")) {
      const message = parsed(text.slice(0, at));
      text = text.slice(at + 1);
      if (message === undefined) socket.destroy();
      else take(message);
    }
    if (text.length > MOST_CHARACTERS) socket.destroy();
  });
}

function parsed(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
