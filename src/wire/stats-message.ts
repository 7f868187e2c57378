import type { MessageInitShape } from "@bufbuild/protobuf";
import { type KvSnapshotStatus, type KvStats, TIER_NAMES } from "../core/kv-status.ts";
import type { SnapshotFile, StatsResponse, StatsResponseSchema } from "./gen/cgn/kv/v1/kv_pb.ts";

/** Write the figures of an index. */
export function statsToMessage(stats: KvStats): MessageInitShape<typeof StatsResponseSchema> {
  const { tiers, snapshot, watchers, instance, ...plain } = stats;
  const [workers, runs, blocks, bytes] = [plain.workers, plain.runs, plain.blocks, plain.bytes].map(whole);
  return {
    workers: workers!,
    runs: runs!,
    blocks: blocks!,
    bytes: bytes!,
    capBytes: whole(plain.capBytes),
    lookups: whole(plain.lookups),
    hits: whole(plain.hits),
    tiers: Object.fromEntries(Object.entries(tiers).map(([tier, n]) => [tier, whole(n)])),
    snapshot: {
      path: snapshot.path,
      state: snapshot.state,
      detail: snapshot.detail,
      ...(snapshot.ageMs === undefined ? {} : { ageSeconds: snapshot.ageMs / 1000 }),
      bytes: whole(snapshot.bytes),
      blocks: whole(snapshot.blocks),
      restored: snapshot.restored,
      dropped: snapshot.dropped,
    },
    watchers: watchers.map(({ name, state, behindBytes, connectedMs }) => ({
      name,
      state,
      behindBytes: whole(behindBytes),
      connectedSeconds: connectedMs / 1000,
    })),
    instance,
  };
}

export function statsFromMessage(s: StatsResponse): KvStats {
  return {
    workers: Number(s.workers),
    runs: Number(s.runs),
    blocks: Number(s.blocks),
    bytes: Number(s.bytes),
    capBytes: Number(s.capBytes),
    lookups: Number(s.lookups),
    hits: Number(s.hits),
    tiers: Object.fromEntries(TIER_NAMES.map((tier) => [tier, Number(s.tiers[tier] ?? 0)])) as KvStats["tiers"],
    snapshot: snapshotFromMessage(s.snapshot),
    watchers: s.watchers.map(({ name, state, behindBytes, connectedSeconds }) => ({
      name,
      state: state === "live" ? "live" : "snapshot",
      behindBytes: Number(behindBytes),
      connectedMs: connectedSeconds * 1000,
    })),
    instance: s.instance,
  };
}

function snapshotFromMessage(file: SnapshotFile | undefined): KvSnapshotStatus {
  if (file === undefined) return NO_SNAPSHOT;
  return {
    path: file.path,
    state: file.state as KvSnapshotStatus["state"],
    detail: file.detail,
    ...(file.ageSeconds === undefined ? {} : { ageMs: file.ageSeconds * 1000 }),
    bytes: Number(file.bytes),
    blocks: Number(file.blocks),
    restored: file.restored,
    dropped: file.dropped,
  };
}

/** Where none is written. */
export const NO_SNAPSHOT: KvSnapshotStatus = {
  path: "",
  state: "off",
  detail: "",
  bytes: 0,
  blocks: 0,
  restored: 0,
  dropped: 0,
};

const whole = (value: number): bigint => BigInt(Math.round(value));
