import type { KvSnapshotStatus, KvStats } from "../core/kv-status.ts";
import { formatDurationMs } from "../core/units.ts";
import type { MirrorStatus } from "../kvcached/mirror-link.ts";
import { ADMIN_OPTIONS, askAdmin } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { KV_ADDRESS_OPTIONS, kvClientFor, textTable } from "./kv-address.ts";

/** `cgn kv stats`: figures of the index, its snapshot and who copies it. */
export const kvStatsCommand: Command = {
  name: "kv stats",
  about: "print the prefix index's figures: workers, blocks by tier, memory, look-ups, snapshot, who keeps a copy",
  examples: ["cgn kv stats", "cgn kv stats --uds /tmp/kv.sock --json", "cgn kv stats --router http://127.0.0.1:9091"],
  options: {
    router: { type: "string", value: "URL", about: "a router's admin address: print the copies that it keeps instead" },
    "key-file": ADMIN_OPTIONS["key-file"],
    ...KV_ADDRESS_OPTIONS,
  },
  async run({ options }, cli) {
    if (typeof options["router"] === "string") {
      const mirrors = await mirrorsOf(options["router"], options, cli);
      cli.out(options["json"] ? JSON.stringify(mirrors) : mirrorText(mirrors));
      return 0;
    }
    const client = kvClientFor(options, cli);
    try {
      const stats = await client.stats();
      if (options["json"]) cli.out(JSON.stringify(stats));
      else printStats(stats, cli);
    } finally {
      client.close();
    }
    return 0;
  },
};

function printStats(stats: KvStats, cli: CliContext): void {
  const { tiers, snapshot, watchers, instance, ...figures } = stats;
  const rows = Object.entries(figures).map(([name, value]) => [name, String(value)]);
  for (const [tier, blocks] of Object.entries(tiers)) if (blocks > 0) rows.push([`blocks in ${tier}`, String(blocks)]);
  cli.out(textTable([...rows, ["snapshot", snapshotText(snapshot)], ["instance", instance]]));
  if (watchers.length === 0) return;
  const lines = watchers.map(({ name, state, behindBytes, connectedMs }) => [
    name,
    state,
    `${behindBytes} bytes`,
    shortly(connectedMs),
  ]);
  cli.out("");
  cli.out(textTable([["WATCHER", "STATE", "BEHIND", "CONNECTED"], ...lines]));
}

function snapshotText({ state, detail, ageMs, bytes, path, restored, dropped }: KvSnapshotStatus): string {
  if (state === "off") return "none is kept";
  const age = ageMs === undefined ? "" : `, ${shortly(ageMs)} old, ${bytes} bytes`;
  const start = restored + dropped === 0 ? "" : `; at the start ${restored} workers believed, ${dropped} not`;
  return `${state}${age} (${path})${start}${detail === "" ? "" : `; ${detail}`}`;
}

/** The copies that a router keeps. @throws CgnError as `askAdmin()` does */
async function mirrorsOf(router: string, options: Values, cli: CliContext): Promise<readonly MirrorStatus[]> {
  const text = await askAdmin("/v1/cgn/status", { ...options, admin: router }, cli);
  const { sources } = JSON.parse(text) as { sources?: { mirrors?: readonly MirrorStatus[] } };
  return sources?.mirrors ?? [];
}

function mirrorText(mirrors: readonly MirrorStatus[]): string {
  if (mirrors.length === 0) return "it keeps no copy: its kvcached runs in the same process";
  const rows = mirrors.map((m) => [
    m.kvcached,
    m.state,
    m.ageMs === undefined ? "-" : shortly(m.ageMs),
    String(m.workers),
    String(m.blocks),
    `${m.notesWaiting}/${m.notesDropped}`,
    m.reason,
  ]);
  return textTable([["KVCACHED", "STATE", "AGE", "WORKERS", "BLOCKS", "NOTES WAITING/LOST", "REASON"], ...rows]);
}

const shortly = (ms: number): string =>
  ms < 1_000 ? `${Math.round(ms)}ms` : formatDurationMs(Math.round(ms / 1_000) * 1_000);
