import { runAgent } from "../agent/daemon.ts";
import { CONFIG_OPTIONS, type Command, LOG_OPTIONS } from "./command.ts";
import { commandLog } from "./command-log.ts";
import { VERSION_OPTIONS } from "./engine-versions.ts";
import { loadForLaunch, PICK_OPTIONS, type Shortcuts } from "./load-config.ts";
import { requireEngines } from "./require-engines.ts";
import { serveEngines } from "./serve-engines.ts";
import { stopCode } from "./stop-code.ts";

/** `cgn agent`: the engines of this host, announced to routers and kvcached elsewhere. */
export const agentCommand: Command = {
  name: "agent",
  about: "start and watch this host's engines, for a router elsewhere",
  examples: [
    "cgn agent --config cgn.toml",
    "cgn agent --config cgn.toml --model qwen --role prefill",
    "curl -H 'content-type: application/json' -d '{}' http://127.0.0.1:7070/cgn.agent.v1.Agent/List",
  ],
  options: {
    ...CONFIG_OPTIONS,
    ...LOG_OPTIONS,
    ...PICK_OPTIONS,
    ...VERSION_OPTIONS,
    listen: { type: "string", value: "HOST:PORT", about: "address to listen on ([agent].listen)" },
    admin: {
      type: "string",
      value: "HOST:PORT",
      about: "address of /healthz, /readyz and /metrics ([agent].listen_admin)",
    },
  },
  async run({ options }, cli) {
    const given = { listen: options["listen"], listen_admin: options["admin"] };
    const shortcuts: Shortcuts = Object.fromEntries(
      Object.entries(given).flatMap(([key, value]) =>
        typeof value === "string" ? [[`agent.${key}`, { flag: `--${key.replace("listen_", "")}`, value }]] : [],
      ),
    );
    const settings = await loadForLaunch(options, cli, shortcuts);
    requireEngines(settings, "run an agent");
    const log = commandLog(options, cli);
    const daemon = await runAgent(settings, { clock: cli.clock, log, env: cli.env });
    const { host, port } = daemon.admin ?? { host: "", port: 0 };
    cli.err(
      `agent listens on ${settings.agent.listen.host}:${daemon.ports[0]}${port === 0 ? "" : `, admin on ${host}:${port}`}`,
    );
    try {
      await serveEngines(daemon.agent, cli);
    } finally {
      await daemon.close();
    }
    return stopCode(cli.signal);
  },
};
