import { randomInt, randomUUID } from "node:crypto";
import { registerWithKvcached } from "../agent/kv-registration.ts";
import { type Followed, followMembers } from "../cluster/follow-members.ts";
import type { Settings } from "../config/settings.ts";
import type { BookingExchange } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { createMirror } from "../kvcached/mirror.ts";
import { createKvcached } from "../kvcached/service.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { exchangeBookings } from "../wire/bookings-client.ts";
import { connectKv } from "../wire/kv-client.ts";
import type { WireTls } from "../wire/tls.ts";
import { createFollowingBookings } from "./following-bookings.ts";
import { wireAddress } from "./wire-address.ts";

/** How often a kvcached elsewhere is told again: it may have been restarted. */
const REGISTER_MS = 5_000;
const LOOK_MS = 20;

/** What a router knows of prefixes: a kvcached in this process, or a copy of what others know. */
export interface OpenKnowledge {
  readonly prefixes: PrefixKnowledge;
  /** How routers with the same kvcached hear of each other's bookings. */
  readonly bookings?: BookingExchange;
  /** Resolves when the index of each kvcached that is known now was copied; after `ms` at the latest. */
  settled(ms: number): Promise<void>;
  /** For `/v1/cgn/status`. */
  sources(): unknown;
  close(): void;
}

export interface KnowledgeOptions {
  /** Whose kvcacheds are copied: those that flags name, and those of the cluster. Empty: embed one. */
  readonly memberships: readonly Membership[];
  readonly tls: WireTls;
  readonly settings: Pick<Settings, "kv"> & { readonly router: Pick<Settings["router"], "nodeId"> };
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly metrics: Metrics;
  /** All workers. */
  readonly directory: WorkerDirectory;
  /** Those that no agent registers. */
  readonly adopted: WorkerDirectory;
}

export function openKnowledge(options: KnowledgeOptions): OpenKnowledge {
  if (options.memberships.length === 0) return embedded(options);
  const hasKvcached = options.memberships.some((each) => each.list().some(({ kind }) => kind === "kvcached"));
  return hasKvcached ? mirrored(options) : bridged(options);
}

/** One in this process until the first kvcached of the cluster was copied. */
function bridged(options: KnowledgeOptions): OpenKnowledge {
  const copies = mirrored(options);
  let own: OpenKnowledge | undefined = embedded(options);
  const now = (): OpenKnowledge => {
    if (own === undefined || !copies.hasCopy()) return own ?? copies;
    own.close();
    own = undefined;
    return copies;
  };
  const both = (): readonly PrefixKnowledge[] =>
    now() === copies ? [copies.prefixes] : [copies.prefixes, own!.prefixes];
  return {
    ...copies,
    prefixes: {
      match: (query) => now().prefixes.match(query),
      sent: (worker, query) => {
        for (const each of both()) each.sent(worker, query);
      },
      unsent: (worker, query) => {
        for (const each of both()) each.unsent?.(worker, query);
      },
      observe: (outcome, judged) => now().prefixes.observe?.(outcome, judged),
    },
    sources: () => now().sources(),
    close() {
      own?.close();
      copies.close();
    },
  };
}

function embedded({ settings, clock, log, env, metrics, directory }: KnowledgeOptions): OpenKnowledge {
  const service = createKvcached({
    clock,
    log,
    env,
    metrics,
    capBytes: settings.kv.ramBytes,
    seed: randomInt(2 ** 32),
  });
  const leave = service.follow(directory);
  return {
    prefixes: service,
    settled: async () => {},
    sources: () => service.sources(),
    close() {
      leave();
      service.close();
    },
  };
}

/**
 * A copy of what the kvcacheds know, of each as they come and go. Engines that no agent announces are registered with all of them.
 * Bookings are exchanged through the first by name, so that all routers choose the same one.
 */
function mirrored(options: KnowledgeOptions): OpenKnowledge & { hasCopy(): boolean } {
  const { memberships, clock, log, metrics, adopted, directory, settings, tls } = options;
  const name = `router ${settings.router.nodeId}`;
  const mirror = createMirror({ clients: [], clock, log, capBytes: settings.kv.ramBytes, directory, metrics, name });
  const open = ({ url }: { readonly url: string }): Followed => {
    const client = connectKv({ address: wireAddress(url), clock, tls });
    const registration = registerWithKvcached({ directory: adopted, client, clock, log, everyMs: REGISTER_MS });
    const leave = mirror.add(client);
    return {
      isLive: () => mirror.status().some(({ kvcached, state }) => kvcached === client.name && state === "live"),
      close() {
        leave();
        void registration.close();
        client.close();
      },
    };
  };
  // Two routers of one host may have one name.
  const router = `${settings.router.nodeId}/${randomUUID().slice(0, 8)}`;
  const bookings = createFollowingBookings((url) =>
    exchangeBookings({ address: wireAddress(url), tls, clock, router }),
  );
  const followed = memberships.map((membership) => followMembers({ membership, kind: "kvcached", clock, open }));
  const chooseBookings = (): void => {
    const members = memberships.flatMap((membership) => membership.list());
    bookings.use(members.find(({ kind }) => kind === "kvcached")?.url);
  };
  chooseBookings();
  const leaves = memberships.map((membership) => membership.subscribe(chooseBookings));
  return {
    prefixes: mirror,
    bookings,
    async settled(ms) {
      const end = clock.now() + ms;
      const isCopied = (): boolean => mirror.status().every(({ state }) => state === "live");
      while (!isCopied() && clock.now() < end) await new Promise<void>((resolve) => void clock.after(LOOK_MS, resolve));
    },
    hasCopy: () => mirror.status().some(({ ageMs }) => ageMs !== undefined),
    sources: () => ({ mirrors: mirror.status(), sources: mirror.sources() }),
    close() {
      for (const leave of leaves) leave();
      for (const each of followed) each.close();
      mirror.close();
    },
  };
}
