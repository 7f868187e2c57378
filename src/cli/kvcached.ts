import { runKvcached } from "../kvcached/daemon.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { followAgent } from "../wire/agent-client.ts";
import { CONFIG_OPTIONS, type Command, LOG_OPTIONS } from "./command.ts";
import { commandLog } from "./command-log.ts";
import { loadForCommand, type Shortcuts } from "./load-config.ts";
import { wireAddress } from "./router-knowledge.ts";
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
    const daemon = await runKvcached(settings, { clock: cli.clock, log, metrics, env: cli.env });
    const { tls } = daemon;
    const agents = ((options["agent"] as readonly string[] | undefined) ?? []).map((url) =>
      followAgent({ address: wireAddress(url), clock: cli.clock, tls }),
    );
    for (const agent of agents) daemon.service.follow(agent);
    cli.err(`kvcached listens on ${settings.kv.uds} and ${settings.kv.listen.host}:${daemon.port}`);
    await stopped(cli.signal);
    for (const agent of agents) agent.close();
    await daemon.close();
    return stopCode(cli.signal);
  },
};
