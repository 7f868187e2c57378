import type { Generation } from "./answer-shapes.ts";
import type { Exchange } from "./exchange.ts";
import type { Failed, HandOver, TransferSide } from "./hand-over.ts";
import { askPeer, type Message, PeerChannel } from "./peer-channel.ts";
import { sglangError } from "./sglang-bodies.ts";
import type { SimEngine } from "./sim-engine.ts";

/** `--disaggregation-mode` and what belongs to it. */
export interface BootstrapOptions {
  readonly mode: "prefill" | "decode";
  /** Of the prefill's bootstrap server, where a request names none. */
  readonly port: number;
}

/** A decode engine tries a bootstrap server that is not there for so long (14 to 17 s were seen). */
const HANDSHAKE_MS = 15_000;
/** `SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT` and `_WAITING_TIMEOUT`. */
const WAIT_MS = 300_000;

interface Room {
  /** The decode engine is there. */
  joined: boolean;
  /** Called when it comes. */
  onJoin: (() => void)[];
  /** The prompt is computed. */
  ready: boolean;
  /** What the prefill found in its cache: the decode reports it too (seen on 0.5.23). */
  cached: number;
  onReady: (() => void)[];
}

/**
 * SGLang 0.5.23's hand-over: the same body goes to both legs, with a room at the prefill's bootstrap server. The prefill stalls
 * until the decode comes, either first; the prefill answers one token, the decode all of them. Without a room both legs refuse.
 */
export class SglangTransfer implements TransferSide {
  readonly #options: BootstrapOptions;
  readonly #engine: SimEngine;
  readonly #channel = new PeerChannel((message) => this.#answer(message));
  readonly #rooms = new Map<string, Room>();

  constructor(options: BootstrapOptions, engine: SimEngine) {
    this.#options = options;
    this.#engine = engine;
  }

  /** Only a prefill listens there. */
  async open(): Promise<void> {
    if (this.#options.mode === "prefill") await this.#channel.open(this.#engine.options.host, this.#options.port);
  }

  close(): Promise<void> {
    return this.#channel.close();
  }

  async begin({ body }: Generation, exchange: Exchange): Promise<HandOver | { readonly failed: Failed } | "gone"> {
    const room = [body["bootstrap_room"]].flat()[0];
    if (typeof room !== "number") {
      const message = "Disaggregated request received without bootstrap room id";
      return { failed: { status: 400, body: sglangError(400, "BadRequestError", message) } };
    }
    return this.#options.mode === "prefill"
      ? this.#prefill(String(room), exchange)
      : this.#decode(body, room, exchange);
  }

  async #prefill(name: string, exchange: Exchange): Promise<HandOver | { readonly failed: Failed } | "gone"> {
    const room = this.#room(name);
    if (!room.joined) {
      const end = await this.#until(exchange, (resolve) => room.onJoin.push(resolve));
      if (end !== "done") {
        this.#rooms.delete(name);
        return end === "gone"
          ? "gone"
          : failed(`Request ${name} timed out after ${WAIT_MS / 1000}s in KVPoll.Bootstrapping`);
      }
    }
    return {
      most: 1,
      done: ({ use }) => {
        room.ready = true;
        room.cached = use.cachedTokens;
        for (const go of room.onReady.splice(0)) go();
      },
    };
  }

  async #decode(
    body: Generation["body"],
    room: number,
    exchange: Exchange,
  ): Promise<HandOver | { readonly failed: Failed } | "gone"> {
    const host = String([body["bootstrap_host"]].flat()[0] ?? "127.0.0.1");
    const written = [body["bootstrap_port"]].flat()[0];
    const port = typeof written === "number" ? written : this.#options.port;
    const asked = askPeer(host, port, { room });
    let answer: Message | undefined;
    const end = await this.#until(exchange, (resolve) => {
      asked.answer.then(
        (told) => {
          answer = told;
          resolve();
        },
        () => this.#engine.deps.clock.after(HANDSHAKE_MS / this.#engine.options.speed, resolve),
      );
    });
    asked.cancel();
    if (end === "gone") return "gone";
    if (end === "late" || answer === undefined) {
      return failed(
        `Decode handshake failed for request rank=0 decode_req.req.bootstrap_room=${room} with exception ` +
          `KVTransferError(bootstrap_room=${room}): Could not fetch prefill parallel info from bootstrap_addr: ${host}:${port}`,
      );
    }
    const cached = answer["cached"];
    return { handOff: { transfer: true }, ...(typeof cached === "number" ? { cachedTokens: cached } : {}) };
  }

  /** A decode engine has come into a room: it is told when the prompt is computed. */
  async #answer({ room: name }: Message): Promise<object> {
    const room = this.#room(String(name));
    room.joined = true;
    for (const go of room.onJoin.splice(0)) go();
    if (!room.ready) await new Promise<void>((resolve) => room.onReady.push(resolve));
    this.#rooms.delete(String(name));
    return { ready: true, cached: room.cached };
  }

  #room(name: string): Room {
    const known = this.#rooms.get(name) ?? { joined: false, onJoin: [], ready: false, cached: 0, onReady: [] };
    this.#rooms.set(name, known);
    return known;
  }

  /** Wait, for as long as the client and the engine's own patience allow. */
  #until(exchange: Exchange, start: (resolve: () => void) => void): Promise<"done" | "gone" | "late"> {
    const { clock } = this.#engine.deps;
    return new Promise((resolve) => {
      const cancel = clock.after(WAIT_MS / this.#engine.options.speed, () => resolve("late"));
      const end = (how: "done" | "gone"): void => {
        cancel();
        resolve(how);
      };
      exchange.onGone(() => end("gone"));
      start(() => end("done"));
    });
  }
}

const failed = (message: string): { readonly failed: Failed } => ({
  failed: { status: 500, body: sglangError(500, "InternalServerError", message) },
});
