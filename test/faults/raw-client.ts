import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";

const EMPTY = Buffer.alloc(0);

/** Nothing may take longer: who waits so long hangs. */
export const HUNG_MS = 15_000;

/** An answer as it came, its framing undone. */
export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
  /** It ended as its framing says. */
  readonly whole: boolean;
}

/** A client on a bare socket. */
export class RawClient {
  readonly socket: Socket;
  #chunks: Buffer[] = [];
  #closed = false;
  #wake: () => void = () => {};
  /** All that came. */
  total = 0;
  /** Bytes that earlier answers took. */
  #from = 0;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (bytes: Buffer) => {
      this.total += bytes.length;
      this.#chunks.push(bytes);
      // Much is not looked through anew for each piece.
      if (this.total < 256 * 1024) this.#wake();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#closed = true;
      this.#wake();
    });
  }

  static open(port: number): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new RawClient(socket)));
      socket.once("error", reject);
    });
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  /** The next answer: when it is whole, or the connection has ended. 1xx are skipped. */
  async answer(): Promise<RawAnswer> {
    let found: (RawAnswer & { readonly end: number }) | undefined;
    await this.#until("an answer", () => {
      found = readAnswer(this.#bytes().subarray(this.#from).toString("latin1"), this.#closed);
      return found !== undefined;
    });
    assert(found);
    this.#from += found.end;
    return found;
  }

  /** Wait until `text` has come. */
  async saw(text: string): Promise<void> {
    await this.#until(JSON.stringify(text), () => this.#bytes().includes(text) || this.#closed);
    assert(this.#bytes().includes(text), `the connection ended before ${JSON.stringify(text)}: ${this.received}`);
  }

  async closed(): Promise<void> {
    await this.#until("the connection's end", () => this.#closed);
  }

  get received(): string {
    return this.#bytes().toString("latin1");
  }

  /** Keep only the end of what comes: it is too much to look at. */
  keepEnd(): void {
    this.socket.on("data", () => {
      if (this.#chunks.length > 64) this.#chunks = [Buffer.concat(this.#chunks).subarray(-4096)];
    });
  }

  #bytes(): Buffer {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] ?? EMPTY;
  }

  async #until(what: string, condition: () => boolean): Promise<void> {
    const started = performance.now();
    while (!condition()) {
      const left = HUNG_MS - (performance.now() - started);
      assert(left > 0, `hung: ${what} did not come within ${HUNG_MS} ms; so far: ${this.received.slice(0, 500)}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, 100));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}

/** The first final answer in `text`; undefined: more may come. */
function readAnswer(text: string, closed: boolean): (RawAnswer & { readonly end: number }) | undefined {
  let at = 0;
  for (;;) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end < 0)
      return closed ? { status: 0, head: text.slice(at), body: "", whole: false, end: text.length } : undefined;
    const head = text.slice(at, end);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
    at = end + 4;
    if (status < 200) continue;
    const framed = readBody(head, status, text.slice(at));
    if (!framed.whole && !closed) return undefined;
    return {
      status,
      head,
      body: Buffer.from(framed.body, "latin1").toString("utf8"),
      whole: framed.whole,
      end: at + framed.taken,
    };
  }
}

function readBody(head: string, status: number, rest: string): { body: string; whole: boolean; taken: number } {
  if (status === 204 || status === 304) return { body: "", whole: true, taken: 0 };
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  if (length !== undefined) {
    const body = rest.slice(0, Number(length));
    return { body, whole: body.length === Number(length), taken: body.length };
  }
  let body = "";
  let at = 0;
  for (;;) {
    const line = rest.indexOf("\r\n", at);
    const size = line < 0 ? Number.NaN : Number.parseInt(rest.slice(at, line), 16);
    if (Number.isNaN(size) || rest.length < line + 2 + size + 2) return { body, whole: false, taken: rest.length };
    body += rest.slice(line + 2, line + 2 + size);
    at = line + 2 + size + 2;
    if (size === 0) return { body, whole: true, taken: at };
  }
}

export const CHAT = '{"model":"m","messages":[{"role":"user","content":"What is the capital of France?"}]}';
export const STREAMED = CHAT.replace("}]}", '}],"stream":true}');

/** A request's bytes. */
export function post(body: string, headers = "", path = "/v1/chat/completions"): string {
  return `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}
