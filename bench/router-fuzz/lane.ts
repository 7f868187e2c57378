import { connect, type Socket } from "node:net";

/** What one request of the fuzz came to. */
export interface FuzzEnd {
  /** 0: the connection ended without an answer; -1: neither came in time. */
  readonly status: number;
  readonly body: string;
  /** The answer ended as its framing says. */
  readonly whole: boolean;
}

/** One client: a connection that is kept while it may be, and one request at a time. */
export class FuzzLane {
  readonly #port: number;
  #socket: Socket | undefined;
  #text = "";
  #look: () => void = () => {};

  constructor(port: number) {
    this.#port = port;
  }

  /**
   * Send bytes and wait for one answer, or the connection's end.
   * @param keep the bytes are a request as it should be: the connection may be used again
   */
  ask(bytes: string, keep: boolean, waitMs: number): Promise<FuzzEnd> {
    return new Promise((resolve) => {
      const socket = this.#open();
      const finish = (end: FuzzEnd): void => {
        clearTimeout(timer);
        this.#look = () => {};
        if (!keep || !end.whole || socket.destroyed || /\r\nconnection: close/i.test(this.#text)) this.close();
        this.#text = "";
        resolve(end);
      };
      const timer = setTimeout(() => finish({ status: -1, body: this.#text.slice(0, 300), whole: false }), waitMs);
      this.#look = () => {
        const end = readEnd(this.#text, socket.destroyed);
        if (end !== undefined) finish(end);
      };
      socket.write(bytes, "latin1");
      // Of half a request nothing would come, ever; so the server hears that there is no more.
      if (!keep && !isWhole(bytes)) socket.end();
    });
  }

  close(): void {
    this.#socket?.resetAndDestroy();
    this.#socket = undefined;
  }

  #open(): Socket {
    if (this.#socket !== undefined && !this.#socket.destroyed) return this.#socket;
    const socket = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
    this.#socket = socket;
    this.#text = "";
    socket.on("data", (bytes: Buffer) => {
      if (this.#socket !== socket) return;
      this.#text += bytes.toString("latin1");
      this.#look();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (this.#socket === socket) this.#look();
    });
    return socket;
  }
}

/** A head, and a body as long as it says: by the simplest reading. */
function isWhole(bytes: string): boolean {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const head = bytes.slice(0, end).toLowerCase();
  const lengths = head.match(/\ncontent-length: *\d+(?=\r|$)/g) ?? [];
  if (lengths.length !== 1 || head.includes("transfer-encoding") || head.includes("expect")) return false;
  return bytes.length - end - 4 >= Number(lengths[0]!.split(":")[1]);
}

function readEnd(text: string, closed: boolean): FuzzEnd | undefined {
  let at = 0;
  for (;;) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end < 0) return closed ? { status: 0, body: text, whole: false } : undefined;
    const head = text.slice(at, end);
    const status = Number(head.slice(9, 12));
    at = end + 4;
    if (status >= 100 && status < 200) continue;
    const rest = text.slice(at);
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
    const bodiless = status === 204 || status === 304 || (length === undefined && !/\r\ntransfer-encoding/i.test(head));
    const whole = bodiless || (length === undefined ? rest.endsWith("0\r\n\r\n") : rest.length >= Number(length));
    if (whole || closed) return { status, body: rest, whole };
    return undefined;
  }
}
