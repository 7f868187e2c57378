import { runKvcached } from "../kvcached/daemon.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { CONFIG_OPTIONS, type Command, LOG_OPTIONS } from "./command.ts";
import { commandLog } from "./command-log.ts";
import { followAgents } from "./follow-agents.ts";
import { loadForCommand, type Shortcuts } from "./load-config.ts";
import { namedMembers, openMembership, ownMember } from "./open-membership.ts";
import { stopCode, stopped } from "./stop-code.ts";

/** `cgn kvcached`: the prefix index as a process of its own. */
export const kvcachedCommand: Command = {
  name: "kvcached",
  about: "run the prefix index on its own, for routers and other gateways",
  examples: [
    "cgn kvcached --config cgn.toml",
    "cgn kvcached --uds /tmp/kv.sock --listen 127.0.0.1:7071",
    'curl -d \'{"model":"m","token_ids":[1,2,3]}\' http://127.0.0.1:7071/query',
    "curl --unix-socket /tmp/kv.sock -H 'content-type: application/json' -d '{}' http://x/cgn.kv.v1.PrefixIndex/Stats",
  ],
  options: {
    ...CONFIG_OPTIONS,
    ...LOG_OPTIONS,
    uds: { type: "string", value: "PATH", about: "Unix socket to listen on ([kv].uds)" },
    listen: { type: "string", value: "HOST:PORT", about: "TCP address to listen on ([kv].listen)" },
    agent: { type: "string[]", value: "URL", about: "follow this agent's engines, besides those that register" },
  },
  async run({ options }, cli) {
    const given = { "kv.uds": options["uds"], "kv.listen": options["listen"] };
    const shortcuts: Shortcuts = Object.fromEntries(
      Object.entries(given)
        .filter(([, value]) => typeof value === "string")
        .map(([key, value]) => [key, { flag: `--${key.slice(3)}`, value: value as string }]),
    );
    const settings = loadForCommand(options, cli, shortcuts);
    const log = commandLog(options, cli);
    const metrics = createMetrics();
    const agents = namedMembers("agent", (options["agent"] as readonly string[] | undefined) ?? []);
    const { clock } = cli;
    const membership = await openMembership(settings, { clock, log });
    try {
      const daemon = await runKvcached(settings, { clock, log, metrics, env: cli.env });
      const followed = followAgents({ memberships: [agents, membership], clock, tls: daemon.tls });
      const unfollow = daemon.service.follow(followed.directory);
      cli.err(`kvcached listens on ${settings.kv.uds} and ${settings.kv.listen.host}:${daemon.port}`);
      const scheme = daemon.tls.serverOptions() === undefined ? "http" : "https";
      const at = { host: settings.kv.listen.host, port: daemon.port ?? settings.kv.listen.port, scheme } as const;
      const withdraw = membership.announce(ownMember("kvcached", at, settings.agent.nodeId, settings, clock));
      await stopped(cli.signal);
      await withdraw();
      unfollow();
      followed.close();
      await daemon.close();
    } finally {
      await membership.close();
    }
    return stopCode(cli.signal);
  },
};
