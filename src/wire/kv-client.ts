import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import type { KvSourceStatus, KvStats } from "../core/kv-status.ts";
import type { MatchQuery, Outcome, PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { PrefixIndex, type WorkerMatch as WorkerMatchMessage } from "./gen/cgn/kv/v1/kv_pb.ts";
import type { KvDelta } from "./kv-delta.ts";
import { MAX_PROMPT_BYTES } from "./kv-limits.ts";
import { type KvNote, notesToMessage } from "./kv-note.ts";
import { sourceFromMessage } from "./source-message.ts";
import { statsFromMessage } from "./stats-message.ts";
import type { WireTls } from "./tls.ts";
import { type WireAddress, wireName, wireTransport } from "./transport.ts";
import { type WatchAsk, type WatchMessage, watchFromMessage } from "./watch-message.ts";
import { workerToMessage } from "./worker-message.ts";

/** Is the other end there, and if not, what it said last. */
export interface WireHealth {
  readonly ok: boolean;
  readonly reason: string;
}

/** kvcached over the network. `match`, `sent`, `unsent` and `observe` never fail: without it nothing is known, and routing goes on. */
export interface KvClient extends PrefixKnowledge {
  match(query: MatchQuery): Promise<readonly WorkerMatch[]>;
  /** `match` for a prompt of token ids, decoded by kvcached. @throws CgnError DEPENDENCY_UNREACHABLE */
  matchTokens(model: string, root: string, tokenIds: readonly number[]): Promise<readonly WorkerMatch[]>;
  /** @throws CgnError DEPENDENCY_UNREACHABLE */
  register(worker: WorkerInfo): Promise<void>;
  /** @throws CgnError DEPENDENCY_UNREACHABLE */
  unregister(id: WorkerId): Promise<void>;
  /** @throws CgnError DEPENDENCY_UNREACHABLE */
  sources(): Promise<readonly KvSourceStatus[]>;
  /** @throws CgnError DEPENDENCY_UNREACHABLE */
  stats(): Promise<KvStats>;
  /** Tell several things at once, in their order. @throws CgnError DEPENDENCY_UNREACHABLE */
  tell(notes: readonly KvNote[]): Promise<void>;
  /** Everything that kvcached knows, then each change. Ends or throws when the connection does. */
  watch(ask: WatchAsk, signal: AbortSignal): AsyncIterable<WatchMessage<KvDelta>>;
  /** For messages. */
  readonly name: string;
  health(): WireHealth;
  close(): void;
}

export interface KvClientOptions {
  readonly address: WireAddress;
  readonly clock: Clock;
  /** Certificates for `https:` addresses. Default: the system's CAs, and none of our own. */
  readonly tls?: WireTls;
  /** A match that takes longer is not waited for. Default 250 ms. */
  readonly matchTimeoutMs?: number;
  /** After a failure, matches are answered with nothing for so long. Default 1 s. */
  readonly retryMs?: number;
}

/** Notes on their way at once; more are dropped (they are hints). */
const MAX_NOTES = 1_000;
const CALL_TIMEOUT_MS = 5_000;

/** Reach kvcached by Connect over a Unix socket or TCP. Nothing is sent before the first call. */
export function connectKv(options: KvClientOptions): KvClient {
  const { transport, agent } = wireTransport(options.address, options.tls);
  const client = createClient(PrefixIndex, transport);
  const name = wireName(options.address);
  let health: WireHealth = { ok: true, reason: "" };
  let closedUntil = Number.NEGATIVE_INFINITY;
  let notes = 0;
  const failed = (error: unknown) => {
    health = { ok: false, reason: `kvcached at ${name}: ${error instanceof Error ? error.message : String(error)}` };
    closedUntil = options.clock.now() + (options.retryMs ?? 1_000);
  };
  const well = () => {
    if (!health.ok) health = { ok: true, reason: "" };
  };
  const resting = () => options.clock.now() < closedUntil;
  const note = (note: KvNote) => {
    if (resting() || notes >= MAX_NOTES) return;
    notes++;
    client
      .observe(notesToMessage([note]), { timeoutMs: CALL_TIMEOUT_MS })
      .then(well, failed)
      .finally(() => notes--);
  };
  return {
    async match(query) {
      // kvcached would refuse it: nobody knows so much of one prompt.
      if (resting() || query.prompt.length > MAX_PROMPT_BYTES) return [];
      try {
        const reply = await client.match({ ...query }, { timeoutMs: options.matchTimeoutMs ?? 250 });
        well();
        return reply.matches.map(matchFromMessage);
      } catch (error) {
        // No worker serves the model yet: kvcached is well.
        if (isNotFound(error)) well();
        else failed(error);
        return [];
      }
    },
    sent: (worker, query) => note({ type: "sent", worker, query }),
    unsent: (worker, query) => note({ type: "unsent", worker, query }),
    observe: (outcome: Outcome) => note({ type: "observed", worker: outcome.worker, outcome }),
    ...calls(client, name),
    async *watch({ watcher, from, sourcesOnly }, signal) {
      const at = from === undefined ? {} : { instance: from.instance, version: BigInt(from.version) };
      for await (const message of client.watch({ watcher, sourcesOnly, ...at }, { signal }))
        yield watchFromMessage(message);
    },
    name,
    health: () => health,
    close: () => agent.destroy(),
  };
}

function matchFromMessage({ worker, tokens, blocks, bytes, tier, source }: WorkerMatchMessage): WorkerMatch {
  const from = source === "events" ? "events" : "history";
  return { worker: workerId(worker), tokens, blocks, bytes, tier: tier as Tier, source: from };
}

const isNotFound = (error: unknown): boolean => error instanceof ConnectError && error.code === Code.NotFound;

/** The calls that may fail. */
function calls(client: Client<typeof PrefixIndex>, name: string) {
  const asked = async <T>(what: string, call: Promise<T>): Promise<T> => {
    try {
      return await call;
    } catch (cause) {
      const said = cause instanceof Error ? cause.message : String(cause);
      // A socket file that is not there comes as "internal", with Node's own words.
      const reached = cause instanceof ConnectError && cause.code !== Code.Unavailable;
      const there = reached && !cause.rawMessage.startsWith("connect ");
      const right = /certificate|self-signed/i.test(said)
        ? "Name the CA that proves it with [security].ca_file"
        : there
          ? "Look at its log"
          : "Start cgn-kvcached, or name its socket with [kv].uds (what a router without one knows is on its dashboard)";
      const message = `Cannot ${what} at kvcached ${name}: ${said}. ${right}`;
      throw new CgnError("DEPENDENCY_UNREACHABLE", message, { address: name }, { cause });
    }
  };
  const options = { timeoutMs: CALL_TIMEOUT_MS };
  return {
    async register(worker: WorkerInfo) {
      await asked("register a worker", client.register({ worker: workerToMessage(worker) }, options));
    },
    async unregister(id: WorkerId) {
      const call = client.unregister({ worker: id }, options).catch((error: unknown) => {
        // Gone already, with a restarted kvcached for example: what was wanted.
        if (!isNotFound(error)) throw error;
      });
      await asked("unregister a worker", call);
    },
    async matchTokens(model: string, root: string, tokenIds: readonly number[]) {
      const reply = await asked("match", client.match({ model, root, tokenIds: [...tokenIds] }, options));
      return reply.matches.map(matchFromMessage);
    },
    async sources() {
      return (await asked("list sources", client.sources({}, options))).sources.map(sourceFromMessage);
    },
    async stats(): Promise<KvStats> {
      return statsFromMessage(await asked("read figures", client.stats({}, options)));
    },
    async tell(notes: readonly KvNote[]) {
      if (notes.length > 0) await asked("tell what was sent", client.observe(notesToMessage(notes), options));
    },
  };
}
