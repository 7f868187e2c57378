import type { EngineStatus } from "../agent/engine-status.ts";
import type { Settings } from "../config/settings.ts";
import { hostPort } from "../engines/address.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, LOG_OPTIONS } from "./command.ts";
import { commandLog } from "./command-log.ts";
import { VERSION_OPTIONS } from "./engine-versions.ts";
import { loadForLaunch, PICK_OPTIONS, type Shortcuts } from "./load-config.ts";
import { warnOfOpenAddress } from "./open-address.ts";
import { createReloader } from "./reloading.ts";
import { serveEngines } from "./serve-engines.ts";
import { type Stack, startStack } from "./stack.ts";
import { stopCode } from "./stop-code.ts";

/** `cgn up`: everything of a file in one process. */
export const upCommand: Command = {
  name: "up",
  about: "run everything of a configuration in one process: engines, prefix index, router",
  examples: ["cgn up", "cgn up --config cgn.toml", "cgn up --listen 127.0.0.1:8081 --set router.policy=round_robin"],
  options: {
    ...CONFIG_OPTIONS,
    ...PICK_OPTIONS,
    ...VERSION_OPTIONS,
    listen: { type: "string", value: "HOST:PORT", about: "address for clients (router.listen_http)" },
    admin: { type: "string", value: "HOST:PORT", about: "address of the admin port (router.listen_admin)" },
    ...LOG_OPTIONS,
  },
  async run({ options }, cli) {
    const given: Record<string, unknown> = { listen_http: options["listen"], listen_admin: options["admin"] };
    const shortcuts: Shortcuts = Object.fromEntries(
      Object.entries(given).flatMap(([key, value]) =>
        typeof value === "string"
          ? [[`router.${key}`, { flag: key === "listen_http" ? "--listen" : "--admin", value }]]
          : [],
      ),
    );
    const load = (before?: Settings, roles?: Shortcuts): Promise<Settings> =>
      roles === undefined
        ? loadForLaunch(options, cli, shortcuts, before)
        : loadForLaunch({ ...options, role: undefined }, cli, { ...shortcuts, ...roles }, before);
    const settings = await load();
    const log = commandLog(options, cli);
    warnOfOpenAddress(settings.router.listenHttp, log, settings.auth);
    let running: Stack | undefined;
    const reloader = createReloader({
      load,
      settings,
      agent: () => running?.agent,
      router: () => running?.router,
      log,
      cli,
    });
    const stack = await startStack(settings, {
      clock: cli.clock,
      log,
      env: cli.env,
      reload: () => reloader.reload(),
      changeRole: (node, role) => reloader.changeRole(node, role),
    });
    running = stack;
    try {
      await serveEngines(
        stack.agent,
        cli,
        (engines) => sayHow(engines, stack, cli),
        () => reloader.hasReloaded,
      );
      cli.err("Draining");
    } finally {
      reloader.close();
      await stack.stop();
    }
    return stopCode(cli.signal);
  },
};

/** What is there now, a line an engine, and where to send requests. */
function sayHow(engines: readonly EngineStatus[], stack: Stack, cli: Pick<CliContext, "err">): void {
  for (const { worker } of engines) cli.err(`  ${worker.id}  ${worker.state}  ${worker.url}  ${worker.reason}`);
  const { address, adminAddress } = stack.router;
  const at = `${stack.scheme}://${hostPort(address.host, address.port)}`;
  cli.err(`Endpoint ${at}/v1, dashboard http://${hostPort(adminAddress.host, adminAddress.port)}/. Ctrl-C ends`);
}
