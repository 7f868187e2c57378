import { connect, type Socket } from "node:net";

// The load generator of bench/proxy.ts, a process of its own. Takes one job a message, answers with what it saw.

/** What to send: bodies of about `bytes`, each of them unique, over `connections`, until `requests` are answered. */
export interface LoadJob {
  readonly url: string;
  readonly bytes: number;
  readonly stream: boolean;
  readonly connections: number;
  readonly requests: number;
  /** Requests a second; 0: as fast as answers come. */
  readonly rate: number;
  /** Events that each stream must have. */
  readonly events?: number;
}

export interface LoadResult {
  readonly answered: number;
  readonly failed: number;
  readonly seconds: number;
  readonly p50Us: number;
  readonly p99Us: number;
}

let serial = 0;

/** A chat with a system prompt that all share and a user text of its own. */
function body({ bytes, stream }: LoadJob): string {
  const unique = `${process.pid}-${serial++} `;
  const text = "The quick brown fox jumps over the lazy dog while it reads about caches. ";
  const system = text.repeat(Math.ceil(bytes / 2 / text.length)).slice(0, bytes / 2);
  const user =
    unique + text.repeat(Math.ceil(bytes / 2 / text.length)).slice(0, Math.max(0, bytes / 2 - unique.length - 120));
  const messages = [
    { role: "system", content: system },
    { role: "user", content: user },
  ];
  return JSON.stringify({ model: "m", messages, max_tokens: 64, ...(stream ? { stream: true } : {}) });
}

class Client {
  readonly #socket: Socket;
  readonly #job: LoadJob;
  readonly #host: string;
  #held: Buffer[] = [];
  #size = 0;
  #need = 0;
  #done: ((ok: boolean) => void) | undefined;

  constructor(job: LoadJob) {
    const url = new URL(job.url);
    this.#job = job;
    this.#host = url.host;
    this.#socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    this.#socket.on("data", (data) => this.#read(data));
    this.#socket.on("error", () => this.#finish(false));
    this.#socket.on("close", () => this.#finish(false));
  }

  ask(): Promise<boolean> {
    const text = body(this.#job);
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\nauthorization: Bearer sk-bench`;
    this.#socket.write(`${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }

  end(): void {
    this.#socket.destroy();
  }

  #read(data: Buffer): void {
    this.#held.push(data);
    this.#size += data.length;
    if (this.#need > 0 ? this.#size < this.#need : !data.includes("\r\n")) return;
    const all = this.#held.length === 1 ? data : Buffer.concat(this.#held);
    const end = all.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = all.toString("latin1", 0, end);
    const length = /content-length: *(\d+)/i.exec(head)?.[1];
    this.#need = length === undefined ? 0 : end + 4 + Number(length);
    const whole = length === undefined ? all.subarray(-5).equals(Buffer.from("0\r\n\r\n")) : all.length >= this.#need;
    const { events } = this.#job;
    const isAll = events === undefined || all.toString("latin1").split("data: ").length - 1 === events;
    if (whole) this.#finish(isAll && head.startsWith("HTTP/1.1 200"));
  }

  #finish(ok: boolean): void {
    this.#held = [];
    this.#size = this.#need = 0;
    const done = this.#done;
    this.#done = undefined;
    done?.(ok);
  }
}

/** More are opened one by one, when they have something to send: servers cut those that say nothing. */
const MOST_AT_ONCE = 1_000;

async function load(job: LoadJob): Promise<LoadResult> {
  const clients: Client[] = [];
  if (job.connections <= MOST_AT_ONCE) for (let i = 0; i < job.connections; i++) clients.push(new Client(job));
  const times: number[] = [];
  let failed = 0;
  let started = 0;
  const startMs = performance.now();
  const one = async (client: Client): Promise<void> => {
    const sentMs = performance.now();
    if (await client.ask()) times.push((performance.now() - sentMs) * 1000);
    else failed++;
  };
  await Promise.all(
    Array.from({ length: job.connections }, async (_each, i) => {
      while (started < job.requests && failed < 100) {
        const dueMs = job.rate === 0 ? 0 : startMs + (started * 1000) / job.rate - performance.now();
        started++;
        if (dueMs > 0) await new Promise((resolve) => setTimeout(resolve, dueMs));
        await one((clients[i] ??= new Client(job)));
      }
    }),
  );
  for (const client of clients) client.end();
  times.sort((a, b) => a - b);
  const seconds = (performance.now() - startMs) / 1000;
  const at = (share: number): number => times[Math.floor(share * times.length)] ?? Number.NaN;
  return { answered: times.length, failed, seconds, p50Us: at(0.5), p99Us: at(0.99) };
}

if (process.send !== undefined) {
  process.send("up");
  process.on("message", (job: LoadJob) => {
    void load(job).then((result) => process.send?.(result));
  });
  process.on("disconnect", () => process.exit(0));
}
