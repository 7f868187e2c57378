import type { Access } from "../access/access.ts";
import { type AgentDaemon, runAgent } from "../agent/daemon.ts";
import { endUnwanted, unwantedKept } from "../agent/kept-engines.ts";
import type { Settings } from "../config/settings.ts";
import type { Log } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import { isLoopbackHost } from "../engines/address.ts";
import { keptText } from "../process/kept-engines.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, LOG_OPTIONS, type Values } from "./command.ts";
import { commandLog } from "./command-log.ts";
import { VERSION_OPTIONS } from "./engine-versions.ts";
import { loadForLaunch, PICK_OPTIONS, type Shortcuts } from "./load-config.ts";
import { openAccessOf } from "./open-access.ts";
import { openMembership, ownMember } from "./open-membership.ts";
import { createReloader } from "./reloading.ts";
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
    "cgn agent --config cgn.toml --end-kept",
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
    "end-kept": {
      type: "boolean",
      about: "end the engines that earlier agents of this node left running (keep_engines), and start nothing",
    },
  },
  async run({ options }, cli) {
    const given = { listen: options["listen"], listen_admin: options["admin"] };
    const shortcuts: Shortcuts = Object.fromEntries(
      Object.entries(given).flatMap(([key, value]) =>
        typeof value === "string" ? [[`agent.${key}`, { flag: `--${key.replace("listen_", "")}`, value }]] : [],
      ),
    );
    const load = (before?: Settings, roles?: Shortcuts): Promise<Settings> =>
      roles === undefined
        ? loadForLaunch(options, cli, shortcuts, before)
        : loadForLaunch({ ...options, role: undefined }, cli, { ...shortcuts, ...roles }, before);
    const settings = await load();
    if (options["endKept"] === true) return endKept(settings, options, cli);
    requireEngines(settings, "run an agent");
    const log = commandLog(options, cli);
    let running: AgentDaemon | undefined;
    const reloader = createReloader({ load, settings, agent: () => running?.agent, log, cli });
    const membership = await openMembership(settings, { clock: cli.clock, log });
    const access = await accessOffLoopback(settings, cli, log);
    try {
      const daemon = await runAgent(settings, {
        clock: cli.clock,
        log,
        env: cli.env,
        access,
        reload: () => reloader.reload(),
        changeRole: (node, role) => reloader.changeRole(node, role),
      });
      running = daemon;
      await serve(daemon, settings, membership, cli, () => reloader.hasReloaded);
    } finally {
      reloader.close();
      access?.close();
      await membership.close();
    }
    return stopCode(cli.signal);
  },
};

/** Keys are asked for by an admin port that other hosts reach; elsewhere the keys file need not be there. */
async function accessOffLoopback(settings: Settings, { clock }: CliContext, log: Log): Promise<Access | undefined> {
  const { agent, metrics, auth } = settings;
  const isLocal = isLoopbackHost((agent.listenAdmin ?? metrics.listen).host);
  return isLocal || !auth.enabled ? undefined : (await openAccessOf(settings, { clock, log })).access;
}

/** Until it is told to stop. An agent whose engines run on stays announced until its lease is over: the next one takes its place. */
async function serve(
  daemon: AgentDaemon,
  settings: Settings,
  membership: Membership,
  cli: CliContext,
  hasReloaded: () => boolean,
): Promise<void> {
  const { agent, security } = settings;
  const { host, port } = daemon.admin ?? { host: "", port: 0 };
  const said = port === 0 ? "" : `, admin on ${host}:${port}`;
  cli.err(`agent listens on ${agent.listen.host}:${daemon.ports[0]}${said}`);
  const scheme = security.certFile === undefined ? "http" : "https";
  const at = { host: agent.listen.host, port: daemon.ports[0] ?? agent.listen.port, scheme } as const;
  const withdraw = membership.announce(ownMember("agent", at, agent.nodeId, settings, cli.clock));
  try {
    await serveEngines(daemon.agent, cli, () => {}, hasReloaded);
  } finally {
    await daemon.close();
    if (!agent.keepEngines) await withdraw();
  }
}

/** Nothing is wanted of what is kept. Those that another agent has in its care are left alone, and named. */
async function endKept({ agent }: Settings, options: Values, cli: CliContext): Promise<number> {
  const unwanted = unwantedKept(agent, []);
  const running = unwanted.stale.filter(({ runs }) => runs);
  await endUnwanted(unwanted, { clock: cli.clock, log: commandLog(options, cli), signal: cli.signal });
  cli.out(
    running.length === 0
      ? `no engine of node ${agent.nodeId} is kept in ${agent.stateDir}`
      : `ended ${running.map(keptText).join(", ")}`,
  );
  return 0;
}
