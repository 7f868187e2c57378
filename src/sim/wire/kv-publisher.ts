import type { Publisher, Router } from "zeromq";
import { loadZeroMq } from "../../wire/load-zeromq.ts";

/** Where events go, as an engine's `--kv-events-config` says it. */
export interface KvEndpoints {
  readonly endpoint: string;
  readonly replay?: string;
  readonly topic: string;
  /** Batches kept for replay. */
  readonly bufferSteps: number;
  /** Bind, whatever the endpoint looks like (SGLang's key). */
  readonly bind?: boolean;
}

/** One rank's endpoints: the engines add the rank to the ports. */
export function rankEndpoints<T extends KvEndpoints>(endpoints: T, rank: number): T {
  const shifted = (endpoint: string) => endpoint.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) + rank}`);
  const { replay } = endpoints;
  return {
    ...endpoints,
    endpoint: shifted(endpoints.endpoint),
    ...(replay === undefined ? {} : { replay: shifted(replay) }),
  };
}

/** Faults on what is sent live; replay always has the truth. */
export interface KvFaults {
  /** Batches still to be lost. */
  drop: number;
  /** True: hold the next batch back, and send it after the one that follows. */
  reorder: boolean;
}

interface Frame {
  readonly seq: number;
  readonly payload: Uint8Array;
}

const END = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);

/**
 * An engine's KV event publisher: PUB frames `[topic, seq, payload]`, and a ROUTER that answers `["", seq]` with
 * `["", topic, seq, payload]…` and the end mark `["", "", 2^64-1, ""]` (vLLM 0.32.0, SGLang 0.5.23). Sequence numbers
 * count from 0 in each process.
 */
export class KvPublisher {
  readonly faults: KvFaults = { drop: 0, reorder: false };
  readonly #pub: Publisher = new (loadZeroMq().Publisher)({ linger: 0, sendHighWaterMark: 100_000 });
  readonly #router: Router | undefined;
  readonly #topic: Buffer;
  readonly #endpoints: KvEndpoints;
  readonly #host: string;
  #buffer: Frame[] = [];
  #seq = 0;
  #held: Frame | undefined;
  #sending: Promise<void> = Promise.resolve();

  /** @param host address that a `*` in an endpoint binds: a simulator on loopback stays there */
  constructor(endpoints: KvEndpoints, host: string) {
    this.#endpoints = endpoints;
    this.#host = host;
    this.#topic = Buffer.from(endpoints.topic);
    this.#router = endpoints.replay === undefined ? undefined : new (loadZeroMq().Router)({ linger: 0 });
  }

  /** The sequence number of the next batch. */
  get nextSeq(): number {
    return this.#seq;
  }

  /** The endpoint that was bound, with the real port. */
  get boundEndpoint(): string | undefined {
    return this.#pub.lastEndpoint ?? undefined;
  }

  get boundReplay(): string | undefined {
    return this.#router?.lastEndpoint ?? undefined;
  }

  /**
   * Bind (or, for an endpoint with a concrete host, connect, as the engines do) and serve replays.
   * @throws the socket's error when an address is taken
   */
  async open(): Promise<void> {
    const { endpoint, replay } = this.#endpoints;
    if (this.#endpoints.bind ?? bindsEndpoint(endpoint)) await this.#pub.bind(endpoint.replace("*", this.#host));
    else this.#pub.connect(endpoint);
    if (this.#router === undefined || replay === undefined) return;
    await this.#router.bind(replay.replace("*", this.#host));
    void this.#serve(this.#router);
  }

  /** Send one batch, and keep it for replay. */
  publish(payload: Uint8Array): void {
    const frame = { seq: this.#seq++, payload };
    this.#buffer.push(frame);
    if (this.#buffer.length > this.#endpoints.bufferSteps) this.#buffer.shift();
    if (this.faults.drop > 0) {
      this.faults.drop--;
      return;
    }
    if (this.faults.reorder && this.#held === undefined) {
      this.#held = frame;
      return;
    }
    this.#send(frame);
    if (this.#held !== undefined) {
      this.#send(this.#held);
      this.#held = undefined;
      this.faults.reorder = false;
    }
  }

  /** Resolves once all that was published has left; then the sockets are closed. */
  async close(): Promise<void> {
    await this.#sending;
    this.#pub.close();
    this.#router?.close();
  }

  #send(frame: Frame): void {
    // One send at a time: the socket refuses a second one that overlaps.
    this.#sending = this.#sending
      .then(() => this.#pub.send([this.#topic, seqFrame(frame.seq), frame.payload]))
      .catch(() => {});
  }

  async #serve(router: Router): Promise<void> {
    try {
      for await (const [identity, empty, start] of router) {
        // Engines ignore what is not exactly [identity, "", 8 bytes].
        if (identity === undefined || empty?.length !== 0 || start?.length !== 8) continue;
        const from = start.readBigUInt64BE();
        for (const frame of this.#buffer.filter((f) => BigInt(f.seq) >= from)) {
          await router.send([identity, EMPTY, this.#topic, seqFrame(frame.seq), frame.payload]);
        }
        await router.send([identity, EMPTY, EMPTY, END, EMPTY]);
      }
    } catch {
      // Closed under way: the asker sees that the engine is gone.
    }
  }
}

/** vLLM binds wildcards, ipc and inproc, and connects to anything else (0.32.0). */
export function bindsEndpoint(endpoint: string): boolean {
  return /\*|::|^ipc:|^inproc:/.test(endpoint);
}

function seqFrame(seq: number): Buffer {
  const frame = Buffer.alloc(8);
  frame.writeBigUInt64BE(BigInt(seq));
  return frame;
}
