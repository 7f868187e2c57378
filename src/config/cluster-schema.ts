import { z } from "zod";
import { about, duration, optionalHost, optionalText, textList } from "./schema-fields.ts";

/** `[cluster]`: which hosts belong together, and through what they find each other. */
export const clusterSchema = z.strictObject({
  name: about(z.string().min(1).default("default"), "Name of the cluster: daemons with different names do not meet"),
  state_backend: about(
    z.enum(["memory", "static", "etcd", "kubernetes", "gossip"]).optional(),
    "Through what daemons find each other: `memory` (all in one process, or named by flags), `static` (a file lists them), `etcd`, " +
      "`kubernetes` (EndpointSlices). `gossip` of old files is refused by daemons apart; `cgn up` takes it for `memory`",
    { defaultText: '"etcd" when `etcd_endpoints` is written, else "memory"' },
  ),
  advertise_host: optionalHost("Name or address by which other hosts reach this one", {
    defaultText: "the address listened on, else the first address of this host",
  }),
  lease_ttl: duration("etcd: a daemon that was not heard for so long is taken off the list", 10_000),
  etcd_endpoints: about(textList().prefault([]), "URLs of the etcd members", { unit: "URL", aliases: ["etcd"] }),
  etcd_username: optionalText("User, where etcd asks for one"),
  etcd_password: optionalText("Its password", { secret: true }),
  etcd_ca_file: optionalText("CA certificates that prove etcd (PEM)", {
    unit: "path",
    defaultText: "`[security].ca_file`, else the system's",
  }),
  etcd_cert_file: optionalText("Certificate that etcd is shown (PEM)", { unit: "path", defaultText: "none" }),
  etcd_key_file: optionalText("Private key of `etcd_cert_file` (PEM)", { unit: "path" }),
  kubernetes_namespace: optionalText("Namespace of the EndpointSlices", { defaultText: "the pod's own" }),
  kubernetes_selector: about(
    z.string().min(1).default("app.kubernetes.io/part-of=cgn"),
    "Labels of the services; `app.kubernetes.io/component` says which daemon is behind one: `agent`, `router`, `kvcached`",
  ),
  gossip_seeds: about(textList().prefault([]), "Gossip peers of old files", { unit: "host:port", unsupported: true }),
  static_file: optionalText('File that lists the daemons, TOML or JSON, for `state_backend = "static"`', {
    unit: "path",
  }),
  data_dir: optionalText("Folder for what this host keeps of the cluster, such as marks of `cgn cordon`", {
    unit: "path",
    defaultText: "`[agent].state_dir`",
  }),
});
