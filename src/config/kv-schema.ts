import { z } from "zod";
import { about, duration, listen, optionalText } from "./schema-fields.ts";

const oldStore = "Block store of the original";

/** `[kv]`: cgn-kvcached, the prefix index. */
export const kvSchema = z.strictObject({
  listen: listen("Where routers and other kvcacheds reach the index", "0.0.0.0:7071"),
  uds: optionalText("Unix socket for daemons of this host", {
    unit: "path",
    defaultText: "/run/cognitora/kv.sock, or in the user's runtime folder where that cannot be written",
  }),
  index_gib: about(z.number().positive().optional(), "Hard cap of the prefix index's memory", {
    unit: "GiB",
    defaultText: "`ram_gib`",
  }),
  ram_gib: about(
    z.number().positive().optional(),
    "In old files, memory of the block store. cgn keeps no KV bytes: the value is the hard cap of the prefix index (`index_gib` is the same without the warning)",
    { unit: "GiB", defaultText: "32, but at most a quarter of the host's memory" },
  ),
  index_dir: optionalText("Folder of index snapshots", {
    unit: "path",
    defaultText: "/var/lib/cognitora/index, or in the user's state folder where that cannot be written",
  }),
  snapshot_every: duration(
    'How often cgn-kvcached writes what it knows to `index_dir`, so that it knows it again after a restart; "0s": only when it stops',
    30_000,
  ),
  block_size_tokens: about(
    z.int().min(1).max(4096).optional(),
    "Tokens a KV block, given to every engine that takes it",
    {
      unit: "tokens",
      defaultText: "16 (the engine's launch decides where it is not written: 32 on vLLM's CPU platform)",
    },
  ),
  ssd_dir: optionalText(`${oldStore}: folder on an SSD`, { unit: "path", unsupported: true }),
  ssd_gib: about(z.number().min(0).default(1024), `${oldStore}: space on the SSD`, { unit: "GiB", unsupported: true }),
  transport: about(z.enum(["quic", "rdma", "tcp"]).optional(), `${oldStore}: how blocks travelled`, {
    unsupported: true,
    defaultText: "none: engines' connectors carry the blocks",
  }),
  quic_listen: listen(`${oldStore}: where blocks were served`, "0.0.0.0:7072", { unsupported: true }),
});
