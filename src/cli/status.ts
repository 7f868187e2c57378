import { ADMIN_OPTIONS, askAdmin } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { figuresBetween, lookOf, type RouterLook } from "./router-figures.ts";
import { routerJson, routerText } from "./router-view.ts";

/** Look at a running router once. @throws CgnError as `askAdmin()` does */
export async function lookAtRouter(options: Values, cli: CliContext): Promise<RouterLook> {
  const [status, metrics] = await Promise.all([
    askAdmin("/v1/cgn/status", options, cli),
    askAdmin("/metrics", options, cli),
  ]);
  return lookOf(cli.clock.now(), status, metrics);
}

/** `cgn status`: models, engines and what is wrong, since the router started. */
export const statusCommand: Command = {
  name: "status",
  about: "print what a router has: models, engines, load, cache hits predicted and real, and whatever is wrong",
  examples: ["cgn status", "cgn status --admin http://10.0.0.5:9091 --key-file ops.key", "cgn status --json"],
  options: { ...ADMIN_OPTIONS, json: { type: "boolean", about: "print JSON" } },
  async run({ options }, cli) {
    const look = await lookAtRouter(options, cli);
    const figures = figuresBetween(undefined, look);
    if (options["json"] === true) cli.out(JSON.stringify(routerJson(look.status, figures), null, 2));
    else cli.out(routerText(look.status, figures));
    return 0;
  },
};
