import { randomInt, randomUUID } from "node:crypto";
import type { ConnectRouter } from "@connectrpc/connect";
import type { Settings } from "../config/settings.ts";
import { requireFolders } from "../config/usable-folders.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { isLoopbackHost } from "../engines/address.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { countTls } from "../telemetry/tls-gauges.ts";
import { bookingsRoutes } from "../wire/bookings-server.ts";
import { kvRoutes } from "../wire/kv-server.ts";
import { listenWire, type WireServer } from "../wire/listen.ts";
import { guardOutgoing } from "../wire/outgoing.ts";
import { openTls, type WireTls } from "../wire/tls.ts";
import { BookingHub } from "./booking-hub.ts";
import { kvHttpRoutes } from "./kv-http.ts";
import { createKvcached, type Kvcached } from "./service.ts";
import { SnapshotKeeper } from "./snapshot-keeper.ts";

/** A kvcached that others can reach. */
export interface KvcachedDaemon {
  readonly service: Kvcached;
  /** TCP port of `[kv].listen`. */
  readonly port: number | undefined;
  /** The key material of `[security]`, for connections of this process to others. */
  readonly tls: WireTls;
  close(): Promise<void>;
}

export interface KvcachedDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Make the service and serve `cgn.kv.v1` on `[kv].uds` and `[kv].listen`. It knows what the last run wrote to `[kv].index_dir`, as
 * far as the engines prove it. Workers come by `Register`, or by the caller's `service.follow()`.
 * @throws CgnError PORT_IN_USE, STORAGE_UNUSABLE, TLS_INVALID; nothing is left open then
 */
export async function runKvcached(
  settings: Pick<Settings, "kv" | "folders" | "security">,
  deps: KvcachedDeps,
): Promise<KvcachedDaemon> {
  const { kv, security } = settings;
  const { clock, log, metrics } = deps;
  requireFolders(settings.folders, ["kv.uds", "agent.kv_uds", "kv.index_dir", "cluster.data_dir"]);
  const tls = openTls(security, { clock, log });
  const unguard = guardOutgoing(tls);
  countTls(metrics, tls);
  const instance = randomUUID();
  const keeper = new SnapshotKeeper({ dir: kv.indexDir, everyMs: kv.snapshotEveryMs, clock, log, metrics, instance });
  let seed: number;
  try {
    seed = (await keeper.open()) ?? randomInt(2 ** 32);
  } catch (error) {
    tls.close();
    unguard();
    throw error;
  }
  let restored = (): void => {};
  const ready = new Promise<void>((resolve) => {
    restored = resolve;
  });
  const snapshot = () => keeper.status();
  const service = createKvcached({ ...deps, capBytes: kv.ramBytes, seed, instance, ready, snapshot });
  const hub = new BookingHub(clock);
  let server: WireServer;
  try {
    const http = kvHttpRoutes(service, metrics);
    const routes = (router: ConnectRouter) => {
      kvRoutes(service)(router);
      bookingsRoutes(hub)(router);
    };
    server = await listenWire({ routes, uds: kv.uds, tcp: kv.listen, tls, http });
  } catch (error) {
    await keeper.close();
    service.close();
    tls.close();
    unguard();
    throw error;
  }
  const isTls = tls.serverOptions() !== undefined;
  log.info("kvcached listens", { uds: kv.uds, host: kv.listen.host, port: server.port, tls: isTls });
  if (!isTls && !isLoopbackHost(kv.listen.host)) warnOfClearText(log, kv.listen.host, server.port);
  const restoring = keeper.start(service).finally(restored);
  return {
    service,
    port: server.port,
    tls,
    async close() {
      await server.close();
      await keeper.close();
      await restoring;
      service.close();
      hub.close();
      tls.close();
      unguard();
    },
  };
}

function warnOfClearText(log: Log, host: string, port: number | undefined): void {
  log.warn("Anyone who reaches this address can read and change what is known of prefixes: it is not encrypted", {
    listen: `${host}:${port}`,
    remedy: "Set cert_file, key_file and client_ca_file in [security], or listen on loopback ([kv].listen)",
  });
}
