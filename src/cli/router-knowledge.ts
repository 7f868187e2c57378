import { randomInt, randomUUID } from "node:crypto";
import { registerWithKvcached } from "../agent/kv-registration.ts";
import type { Settings } from "../config/settings.ts";
import type { BookingExchange } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { createMirror } from "../kvcached/mirror.ts";
import { createKvcached } from "../kvcached/service.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { exchangeBookings } from "../wire/bookings-client.ts";
import { connectKv, type KvClient } from "../wire/kv-client.ts";
import type { WireTls } from "../wire/tls.ts";
import type { WireAddress } from "../wire/transport.ts";

/** How often a kvcached elsewhere is told again: it may have been restarted. */
const REGISTER_MS = 5_000;

/** What a router knows of prefixes: a kvcached in this process, or a copy of what others know. */
export interface OpenKnowledge {
  readonly prefixes: PrefixKnowledge;
  /** How routers with the same kvcached hear of each other's bookings: through the first. */
  readonly bookings?: BookingExchange;
  /** For `/v1/cgn/status`. */
  sources(): unknown;
  close(): void;
}

export interface KnowledgeOptions {
  /** Empty: embed one. */
  readonly kvcacheds: readonly WireAddress[];
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

/** Read `http://HOST:PORT` or `unix:PATH`. @throws CgnError BAD_INVOCATION */
export function wireAddress(text: string): WireAddress {
  if (text.startsWith("unix:")) return { uds: text.slice("unix:".length) };
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return { url: text.replace(/\/+$/, "") };
  throw new CgnError(
    "BAD_INVOCATION",
    `Cannot read the address "${text}": it is neither a URL nor unix:PATH. Write for example http://127.0.0.1:7071`,
    { text },
  );
}

export function openKnowledge(options: KnowledgeOptions): OpenKnowledge {
  return options.kvcacheds.length === 0 ? embedded(options) : mirrored(options);
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
    sources: () => service.sources(),
    close() {
      leave();
      service.close();
    },
  };
}

/** A copy of what the kvcacheds know. Engines that no agent registers are registered with the first. */
function mirrored(options: KnowledgeOptions): OpenKnowledge {
  const { clock, log, metrics, adopted, directory, settings, tls } = options;
  const clients = options.kvcacheds.map((address) => connectKv({ address, clock, tls }));
  const [first] = clients as [KvClient, ...KvClient[]];
  const registration = registerWithKvcached({ directory: adopted, client: first, clock, log, everyMs: REGISTER_MS });
  const name = `router ${settings.router.nodeId}`;
  const capBytes = settings.kv.ramBytes;
  const mirror = createMirror({ clients, clock, log, capBytes, directory, metrics, name });
  // Two routers of one host may have one name.
  const router = `${settings.router.nodeId}/${randomUUID().slice(0, 8)}`;
  return {
    prefixes: mirror,
    bookings: exchangeBookings({ address: options.kvcacheds[0]!, tls, clock, router }),
    sources: () => ({ mirrors: mirror.status(), sources: mirror.sources() }),
    close() {
      mirror.close();
      void registration.close();
      for (const client of clients) client.close();
    },
  };
}
