import type { FederationSettings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { fetchText } from "../http/fetch-text.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** A router of another cluster, as it answered last. */
export interface Peer {
  readonly url: string;
  /** Host and port, for people. */
  readonly name: string;
  readonly up: boolean;
  /** Why not; "" when it is. */
  readonly reason: string;
  readonly models: readonly string[];
}

const TIMEOUT_MS = 4_000;

/** Looks at the other clusters' routers in turn: who answers `/v1/models`, and what it has. */
export class FederationPeers {
  readonly #settings: FederationSettings;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #metrics: Metrics;
  #peers: readonly Peer[];
  #closed = false;
  #cancel = (): void => {};

  constructor(settings: FederationSettings, clock: Clock, log: Log, metrics: Metrics) {
    this.#settings = settings;
    this.#clock = clock;
    this.#log = log;
    this.#metrics = metrics;
    const unknown = { up: false, reason: "not asked yet", models: [] };
    this.#peers = settings.peers.map((url) => ({ url, name: new URL(url).host, ...unknown }));
    void this.#round();
  }

  list(): readonly Peer[] {
    return this.#peers;
  }

  /** Those that have this model now, in the order of the file. */
  having(model: string): readonly Peer[] {
    return this.#peers.filter(({ up, models }) => up && models.includes(model));
  }

  /** A request found that it cannot be reached: it is left out until it answers again. */
  failed(peer: Peer, reason: string): void {
    this.#set({ ...peer, up: false, reason });
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  async #round(): Promise<void> {
    await Promise.all(this.#peers.map((peer) => this.#look(peer)));
    if (!this.#closed) this.#cancel = this.#clock.after(this.#settings.healthIntervalMs, () => void this.#round());
  }

  async #look(peer: Peer): Promise<void> {
    const { key } = this.#settings;
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const { status, body, tls } = await fetchText(`${peer.url}/v1/models`, { timeoutMs: TIMEOUT_MS, headers });
    if (this.#closed) return;
    const models = status === 200 ? namesIn(body) : undefined;
    if (models !== undefined) return this.#set({ ...peer, up: true, reason: "", models });
    const said = status === 401 || status === 403 ? " ([router.federation].key)" : "";
    const reason = status === 0 ? (tls ?? "it does not answer") : `it answers ${status} to /v1/models${said}`;
    this.#set({ ...peer, up: false, reason });
  }

  #set(peer: Peer): void {
    const before = this.#peers.find(({ url }) => url === peer.url);
    this.#peers = this.#peers.map((each) => (each.url === peer.url ? peer : each));
    this.#metrics.gauge("cgn_router_federation_peer_up", peer.name).set(peer.up ? 1 : 0);
    if (before?.up === peer.up && before.reason === peer.reason) return;
    if (peer.up) this.#log.info("The other cluster's router answers", { peer: peer.url, models: peer.models });
    else this.#log.warn("The other cluster's router is no help", { peer: peer.url, reason: peer.reason });
  }
}

function namesIn(body: string): readonly string[] | undefined {
  try {
    const { data } = JSON.parse(body) as { readonly data?: readonly { readonly id?: unknown }[] };
    return data?.flatMap(({ id }) => (typeof id === "string" ? [id] : []));
  } catch {
    return undefined;
  }
}
