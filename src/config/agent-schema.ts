import { z } from "zod";
import { DEFAULT_ROLE, ROLES } from "../core/engine-kind.ts";
import {
  about,
  duration,
  flag,
  listen,
  optionalDuration,
  optionalHost,
  optionalListen,
  optionalText,
  optionalUrl,
} from "./schema-fields.ts";

/** `[agent]`: what starts engines on this host and watches over them. */
export const agentSchema = z.strictObject({
  listen: listen("Where the agent is reached by other daemons", "0.0.0.0:7070"),
  listen_grpc: optionalListen("Another address for gRPC, as old files have it", { defaultText: "`listen`" }),
  listen_admin: optionalListen("Metrics, health, reload and roles of the agent", {
    defaultText: "`[metrics].listen`; none where another daemon of the host has that port",
  }),
  node_id: optionalText("Name of this agent", { defaultText: "the host name" }),
  role: about(z.enum(ROLES).default(DEFAULT_ROLE), "What part of a request the engines of this agent compute"),
  gpu_index: about(
    z.int().min(0).optional(),
    "First GPU of this agent's engine; it takes as many as the model's `tp`",
    {
      unit: "GPU index",
      defaultText: "the engine sees all GPUs",
    },
  ),
  relay: about(
    z.enum(["auto", "always", "never"]).default("auto"),
    "Engines that listen on loopback are reached from other hosts through this agent's port (`auto`), or all of its engines are from " +
      "everywhere (`always`). Only where `[security].require_mtls` asks everybody for a certificate, or the port is on loopback",
  ),
  kv_uds: optionalText("Unix socket of cgn-kvcached", {
    unit: "path",
    defaultText: "/run/cognitora/kv.sock, or in the user's runtime folder where that cannot be written",
  }),
  ready_probe_url: optionalUrl("URL to ask for readiness instead of the engine's own", ["http", "https"]),
  ready_timeout: duration("How long an engine may take to become ready", 120_000),
  heartbeat: duration("How often the agent says that it is alive", 5_000),
  drain_grace: duration("How long requests in flight may take after a stop was asked for", 30_000),
  keep_engines: flag("Engines outlive the agent (for upgrades), and no guard process watches them", false),
  log_file_mib: about(
    z.number().min(0.001).max(1_048_576).default(16),
    "An engine's log is rotated before it grows above this: `NAME.log` becomes `NAME.log.1`, that `NAME.log.2`, …",
    { unit: "MiB" },
  ),
  log_files: about(z.int().min(1).max(100).default(4), "Files of each engine's log, the newest included", {
    unit: "files",
  }),
  stall_timeout: duration(
    "An engine that has requests and computes nothing for them for so long counts as hung and is started again; `0s`: never. " +
      "Only engines whose metrics tell (vLLM, SGLang, llama-server)",
    300_000,
  ),
  oom_score_adj: about(
    z.int().min(-1000).max(1000).optional(),
    "How readily the kernel ends engines when memory runs out (Linux); never below the agent's own",
    { unit: "points", defaultText: "100 above the agent's" },
  ),
  platform: about(
    z.enum(["cuda", "cpu", "metal", "auto"]).optional(),
    "What the engines compute on. `auto` looks at this host; not written, commands are rendered for a GPU whatever the host has",
    { defaultText: "rendered for a GPU" },
  ),
  peer_address: optionalHost("Address of this host that prefill and decode peers dial", {
    unit: "address",
    defaultText:
      'the host of `listen` or of `engine.url` when that is a concrete address; else loopback with `state_backend = "memory"`, ' +
      "and the host's first address with others",
  }),
  side_port_base: about(
    z.int().min(1024).max(52_000).default(20_000),
    "First port of the range from which engines get side ports (KV events, replay, NIXL, bootstrap, …): 64 for each engine, " +
      "chosen by its HTTP port, within 12,736 ports",
    { unit: "port" },
  ),
  state_dir: optionalText("Folder for files that engines need and for what the agent remembers", {
    unit: "path",
    defaultText: "/var/lib/cognitora, or the user's state folder where that cannot be written",
  }),
  log_dir: optionalText("Folder of the engines' logs", { unit: "path", defaultText: "`state_dir`/logs" }),
  vllm_url: optionalText("Old spelling of `[engine].url`; alone, it adopts a vLLM that somebody else started", {
    unit: "URL",
  }),
  vllm_cmd: about(
    z.union([z.string(), z.array(z.string())]).optional(),
    "Old argv template with `{model}` and `{tp}`, in place of the rendered command; no shell reads it",
  ),
});

/** Keys of `[agent]` that `[engine]` and `[[engines]]` take too, for one engine. */
export const perEngineAgentKeys = {
  role: about(z.enum(ROLES).optional(), "What part of a request this engine computes", {
    defaultText: "`[agent].role`",
  }),
  node_id: optionalText("Name of this engine's node", {
    defaultText: "`[agent].node_id`, with the engine's number from the second on",
  }),
  gpu_index: about(z.int().min(0).optional(), "First GPU of this engine; it takes as many as the model's `tp`", {
    unit: "GPU index",
    defaultText: "`[agent].gpu_index`",
  }),
  ready_timeout: optionalDuration("How long this engine may take to become ready", {
    defaultText: "`[agent].ready_timeout`",
  }),
  stall_timeout: optionalDuration("How long this engine may have requests without computing anything; `0s`: for ever", {
    defaultText: "`[agent].stall_timeout`",
  }),
  drain_grace: optionalDuration("How long requests in flight may take after a stop was asked for", {
    defaultText: "`[agent].drain_grace`",
  }),
};
