import type { Generation } from "./answer-shapes.ts";
import type { Exchange } from "./exchange.ts";
import type { Failed, HandOver, TransferSide } from "./hand-over.ts";
import { askPeer, type Message, PeerChannel } from "./peer-channel.ts";
import type { SimEngine } from "./sim-engine.ts";
import { vllmError } from "./vllm-bodies.ts";

/** NIXL as a vLLM is told to use it. */
export interface NixlOptions {
  readonly role: "kv_producer" | "kv_consumer" | "kv_both";
  /** `pull`: the decode engine reads (NixlConnector). `push`: the prefill engine writes (NixlPushConnector). */
  readonly mode: "pull" | "push";
  readonly engineId: string;
  /** The side channel. */
  readonly host: string;
  readonly port: number;
  /** What becomes of a request whose blocks cannot be read (`kv_load_failure_policy`). */
  readonly onFailure: "fail" | "recompute";
}

type Params = Readonly<Record<string, unknown>>;

/** An engine that was never reached: its handshake is tried that long (seen on 0.32.0). */
const HANDSHAKE_MS = 5_000;

interface Held {
  readonly keys: readonly string[];
  released: boolean;
}

/**
 * vLLM 0.32.0's NIXL hand-over, pull and push, with its failures as seen on two real engines: stale parameters are accepted and
 * answered from whatever lies in those blocks; partial ones hang until the client leaves, and then the engine dies; an engine that is
 * not there fails the request at once when it was known, after 5 s when not.
 */
export class VllmTransfer implements TransferSide {
  readonly #options: NixlOptions;
  readonly #engine: SimEngine;
  readonly #channel = new PeerChannel((message) => this.#answer(message));
  /** Prefill side, by `remote_request_id` (pull) or `transfer_id` (push). */
  readonly #held = new Map<string, Held>();
  /** Push: decode engines that wait for a transfer. */
  readonly #awaited = new Map<string, (() => void)[]>();
  /** Engines that a handshake was made with. */
  readonly #known = new Set<string>();

  constructor(options: NixlOptions, engine: SimEngine) {
    this.#options = options;
    this.#engine = engine;
    engine.loop.onExpired = (key) => this.#forget(key);
  }

  open(): Promise<void> {
    return this.#channel.open(this.#options.host, this.#options.port);
  }

  close(): Promise<void> {
    return this.#channel.close();
  }

  async begin(g: Generation, exchange: Exchange): Promise<HandOver | { readonly failed: Failed } | "gone"> {
    const params = g.body["kv_transfer_params"];
    if (typeof params !== "object" || params === null) return {};
    const asked = params as Params;
    const { role } = this.#options;
    if (asked["do_remote_decode"] === true && role !== "kv_consumer") return this.#prefill(g, asked);
    if (asked["do_remote_prefill"] === true && role !== "kv_producer") return this.#decode(asked, exchange);
    return {};
  }

  #prefill(g: Generation, asked: Params): HandOver {
    const { mode, engineId, host, port } = this.#options;
    const requestId = `${g.id}-${this.#engine.deps.newId().slice(0, 8)}`;
    const transferId = typeof asked["transfer_id"] === "string" ? asked["transfer_id"] : g.id;
    const { blockTokens } = this.#engine.options.limits;
    return {
      handOff: { hold: true },
      transferOf: (keys, use) => {
        const name = mode === "push" ? transferId : requestId;
        this.#held.set(name, { keys, released: false });
        for (const go of this.#awaited.get(name) ?? []) go();
        this.#awaited.delete(name);
        const blocks = Math.ceil(g.prompt.length / blockTokens);
        return {
          do_remote_prefill: true,
          do_remote_decode: false,
          remote_block_ids: [Array.from({ length: blocks }, (_, i) => i + 1)],
          remote_engine_id: engineId,
          remote_request_id: requestId,
          remote_host: host,
          remote_port: port,
          tp_size: 1,
          dcp_size: 1,
          pp_size: 1,
          remote_num_tokens: g.prompt.length,
          remote_blocks_expiry_time: null,
          transfer_mode: mode,
          remote_prefill_cached_tokens: use.cachedTokens,
        };
      },
    };
  }

  async #decode(asked: Params, exchange: Exchange): Promise<HandOver | { readonly failed: Failed } | "gone"> {
    const push = this.#options.mode === "push";
    const needed = [
      "remote_engine_id",
      "remote_request_id",
      "remote_host",
      "remote_port",
      ...(push ? [] : ["remote_block_ids"]),
    ];
    if (needed.some((name) => asked[name] === undefined || asked[name] === null)) return this.#partial(exchange);
    const engineId = String(asked["remote_engine_id"]);
    const host = String(asked["remote_host"]);
    const port = Number(asked["remote_port"]);
    const reached = await this.#handshake(engineId, host, port);
    if (!reached) return this.#failed();
    if (push && !(await this.#arrived(asked, host, port, exchange))) return "gone";
    const cached = asked["remote_prefill_cached_tokens"];
    const read = { op: "read", request: push ? asked["transfer_id"] : asked["remote_request_id"] };
    return {
      handOff: { transfer: true },
      ...(typeof cached === "number" ? { cachedTokens: cached } : {}),
      // The prefill engine lets its blocks go when they are read; of a request that it does not know it only complains in its log.
      transferred: () => void askPeer(host, port, read),
    };
  }

  /** It waits for what never comes; when the client leaves, the scheduler stumbles over the missing member, and the engine is gone. */
  #partial(exchange: Exchange): Promise<"gone"> {
    return new Promise((resolve) =>
      exchange.onGone(() => {
        this.#engine.apply({ kind: "engine-crash" });
        resolve("gone");
      }),
    );
  }

  #failed(): HandOver | { readonly failed: Failed } {
    if (this.#options.onFailure === "recompute") return {};
    return { failed: { status: 500, body: vllmError(500, "InternalServerError", "Internal server error") } };
  }

  /** Is that engine at that address? */
  async #handshake(engineId: string, host: string, port: number): Promise<boolean> {
    const answer = await askPeer(host, port, { op: "handshake" }).answer.catch(() => undefined);
    if (answer?.["engine_id"] === engineId) {
      this.#known.add(engineId);
      return true;
    }
    if (answer === undefined && !this.#known.has(engineId)) await this.#wait(HANDSHAKE_MS);
    return false;
  }

  #wait(ms: number): Promise<void> {
    const { deps, options } = this.#engine;
    return new Promise((resolve) => deps.clock.after(ms / options.speed, resolve));
  }

  /** Push: resolves when the prefill has written; false when the client left before. */
  async #arrived(asked: Params, host: string, port: number, exchange: Exchange): Promise<boolean> {
    const waiting = askPeer(host, port, { op: "await", transfer: asked["transfer_id"] ?? asked["remote_request_id"] });
    exchange.onGone(() => waiting.cancel());
    return waiting.answer.then(
      () => true,
      () => false,
    );
  }

  async #answer(message: Message): Promise<object> {
    if (message["op"] === "handshake") return { engine_id: this.#options.engineId };
    if (message["op"] === "read") return { known: this.#release(String(message["request"])) };
    const transfer = String(message["transfer"]);
    if (!this.#held.has(transfer)) {
      await new Promise<void>((resolve) => {
        this.#awaited.set(transfer, [...(this.#awaited.get(transfer) ?? []), resolve]);
      });
    }
    return { arrived: true };
  }

  #release(name: string): boolean {
    const held = this.#held.get(name);
    if (held === undefined || held.released) return false;
    held.released = true;
    this.#held.delete(name);
    for (const key of held.keys) this.#engine.loop.release(key);
    return true;
  }

  /** Nobody read it in time: the blocks are free. */
  #forget(key: string): void {
    for (const [name, { keys }] of this.#held) if (keys.includes(key)) this.#held.delete(name);
  }
}
