import { randomInt } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import { requireFolders } from "../config/usable-folders.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { kvRoutes } from "../wire/kv-server.ts";
import { listenWire } from "../wire/listen.ts";
import { createKvcached, type Kvcached } from "./service.ts";

/** A kvcached that others can reach. */
export interface KvcachedDaemon {
  readonly service: Kvcached;
  /** TCP port of `[kv].listen`. */
  readonly port: number | undefined;
  close(): Promise<void>;
}

export interface KvcachedDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Make the service and serve `cgn.kv.v1` on `[kv].uds` and `[kv].listen`. Workers come by `Register`, or by the caller's
 * `service.follow()`.
 * @throws CgnError PORT_IN_USE, STORAGE_UNUSABLE; nothing is left open then
 */
export async function runKvcached(
  settings: Pick<Settings, "kv" | "folders">,
  deps: KvcachedDeps,
): Promise<KvcachedDaemon> {
  const { kv } = settings;
  requireFolders(settings.folders, ["kv.uds", "agent.kv_uds", "kv.index_dir", "cluster.data_dir"]);
  const service = createKvcached({ ...deps, capBytes: kv.ramBytes, seed: randomInt(2 ** 32) });
  const server = await listenWire({ routes: kvRoutes(service), uds: kv.uds, tcp: kv.listen });
  deps.log.info("kvcached listens", { uds: kv.uds, host: kv.listen.host, port: server.port });
  return {
    service,
    port: server.port,
    async close() {
      await server.close();
      service.close();
    },
  };
}
