import { isLoopbackHost, isWildcardHost } from "../engines/address.ts";
import { type EngineSlot, SIDE_PORTS } from "../engines/engine.ts";
import type { Section } from "./config-schema.ts";
import type { EngineAddress } from "./engine-address.ts";
import type { EngineDraft } from "./engine-drafts.ts";
import { type LoadContext, report } from "./load-context.ts";
import type { ClusterSettings } from "./settings.ts";

/** How many blocks of side ports there are; a prime, so that neighbouring HTTP ports spread over all of them. */
const SIDE_BLOCKS = 199;

/** The machine share of each engine, in the order of `drafts`. */
export function engineSlots(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  addresses: readonly EngineAddress[],
  agent: Section<"agent">,
  cluster: ClusterSettings,
  shared: { readonly stateDir: string; readonly takenPorts: readonly number[] },
): EngineSlot[] {
  const taken = [...shared.takenPorts, ...addresses.map((a) => a.port)];
  const bases = sideBases(addresses, agent.side_port_base, taken, ctx.sidePortBases);
  const gpus = assignGpus(ctx, drafts, agent.gpu_index);
  const spawned = Math.max(1, drafts.filter((draft) => draft.spawn).length);
  const platform = agent.platform === "auto" ? ctx.host.platform : (agent.platform ?? "unknown");
  return drafts.map((draft, n) => {
    const own = gpus[n];
    const bootstrap = draft.common.prefill_bootstrap_port;
    const engineVersion = ctx.engineVersion?.({ index: n, kind: draft.engine.kind });
    return {
      host: addresses[n]!.host,
      port: addresses[n]!.port,
      ...(own === undefined ? {} : { gpus: own }),
      peerAddress: agent.peer_address ?? peerAddress(ctx, agent, addresses[n]!, cluster),
      sidePortBase: bases[n]!,
      ...(bootstrap === undefined ? {} : { prefillBootstrapPort: bootstrap }),
      ...(engineVersion === undefined ? {} : { engineVersion }),
      cores: ctx.host.cores,
      enginesOnHost: spawned,
      indexOnHost: n,
      launcherDir: ctx.host.launcherDir,
      found: ctx.host.found,
      platform,
      stateDir: shared.stateDir,
    };
  });
}

/**
 * The first side port of each engine. Engine k of a port has block (port mod 199); where two meet, or a stated port lies in
 * the block, the next free one serves. So the same file always gives the same ports, and two files of one host with
 * different HTTP ports seldom meet. The order of the file has no say.
 *
 * @param taken ports that a block must not contain
 * @param running blocks of engines that run, by HTTP port: they keep them where they still may, so that a new neighbour
 * restarts nobody
 */
export function sideBases(
  addresses: readonly { readonly port: number }[],
  first: number,
  taken: readonly number[],
  running: ReadonlyMap<number, number> = new Map(),
): number[] {
  const used = new Set<number>();
  for (const port of taken) {
    const block = Math.floor((port - first) / SIDE_PORTS);
    if (block >= 0 && block < SIDE_BLOCKS) used.add(block);
  }
  const bases = new Array<number>(addresses.length);
  const place = (n: number, block: number): void => {
    used.add(block);
    bases[n] = first + SIDE_PORTS * block;
  };
  const byPort = addresses.map((_, n) => n).sort((a, b) => addresses[a]!.port - addresses[b]!.port);
  const rest = byPort.filter((n) => {
    const block = ((running.get(addresses[n]!.port) ?? Number.NaN) - first) / SIDE_PORTS;
    const isFree = Number.isInteger(block) && block >= 0 && block < SIDE_BLOCKS && !used.has(block);
    if (isFree) place(n, block);
    return !isFree;
  });
  for (const n of rest) {
    let block = addresses[n]!.port % SIDE_BLOCKS;
    for (let tries = 0; used.has(block) && tries < SIDE_BLOCKS; tries++) block = (block + 1) % SIDE_BLOCKS;
    place(n, block);
  }
  return bases;
}

/** `gpus`, else from `gpu_index` on as many as the model's tp. */
function assignGpus(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  agentIndex: number | undefined,
): (readonly number[] | undefined)[] {
  const next = new Map<unknown, number>();
  return drafts.map((draft) => {
    if (!draft.spawn) return undefined;
    const { common, entry } = draft;
    const tp = draft.model?.tp ?? 1;
    const index = common.gpu_index ?? agentIndex;
    // Engines that share an index (models of one entry, or all that have the agent's) follow each other.
    const sharedBy = common.gpu_index === undefined ? ctx : entry;
    const start = next.get(sharedBy) ?? index;
    const own = common.gpus ?? (start === undefined ? undefined : Array.from({ length: tp }, (_, n) => start + n));
    if (start !== undefined) next.set(sharedBy, start + tp);
    if (own !== undefined && own.length < tp) {
      report(ctx, [...entry.path, "gpus"], {
        problem: `lists ${own.length} GPUs, and model "${draft.model?.name}" has tp = ${tp}`,
        remedy: `List ${tp} GPUs, or lower tp`,
      });
    }
    return own;
  });
}

/** What peers dial: a concrete address that was written, loopback when all are here, else the host's first address. */
function peerAddress(
  ctx: LoadContext,
  agent: Section<"agent">,
  address: EngineAddress,
  cluster: ClusterSettings,
): string {
  const written = [agent.listen.host, address.host].find((host) => !isWildcardHost(host) && !isLoopbackHost(host));
  if (written !== undefined) return written;
  const alone = cluster.stateBackend === "memory" || cluster.stateBackend === "gossip";
  return alone ? "127.0.0.1" : (ctx.host.address ?? "127.0.0.1");
}
