import { z } from "zod";
import { about, optionalText, textList } from "./schema-fields.ts";

/** `[cluster]`: which hosts belong together, and through what they find each other. */
export const clusterSchema = z.strictObject({
  name: about(z.string().min(1).default("default"), "Name of the cluster: daemons with different names do not meet"),
  state_backend: about(
    z.enum(["memory", "static", "etcd", "gossip"]).optional(),
    "Through what daemons find each other: `memory` (all in one process), `static` (a file lists the workers), `etcd`. " +
      "`gossip` is read from old files and means what `memory` means",
    { defaultText: '"etcd" when `etcd_endpoints` is written, else "memory"' },
  ),
  etcd_endpoints: about(textList().prefault([]), "URLs of the etcd members", { unit: "URL", aliases: ["etcd"] }),
  gossip_seeds: about(textList().prefault([]), "Gossip peers of old files", { unit: "host:port", unsupported: true }),
  static_file: optionalText('File that lists the workers, for `state_backend = "static"`', { unit: "path" }),
  data_dir: optionalText("Folder for what this host keeps of the cluster", {
    unit: "path",
    defaultText: "`[agent].state_dir`",
  }),
});
