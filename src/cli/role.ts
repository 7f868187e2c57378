import { ROLES } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import { ROLE_PATH } from "../core/reload-report.ts";
import { ADMIN_OPTIONS, baseUrl } from "./admin-client.ts";
import { CONFIG_OPTIONS, type Command } from "./command.ts";
import { loadForCommand, PICK_OPTIONS } from "./load-config.ts";
import { adminPlaces, askDaemon, reloadLines } from "./reload.ts";

/** `cgn role NODE ROLE`: an engine takes another part in prefill and decode. */
export const roleCommand: Command = {
  name: "role",
  about:
    "give an engine of this host (or all of a node) another role: it is drained and started anew; until the file gives another, or the agent ends",
  examples: [
    "cgn role gpu-a decode",
    "cgn role gpu-a/qwen both --config cgn.toml",
    "cgn role gpu-b prefill --admin 127.0.0.1:9191",
  ],
  positionals: [
    { name: "NODE", about: "a node's name, or an engine's id as cgn status shows it", required: true },
    { name: "ROLE", about: ROLES.join(", "), required: true },
  ],
  options: {
    ...CONFIG_OPTIONS,
    model: PICK_OPTIONS.model,
    admin: {
      type: "string",
      value: "HOST:PORT|URL",
      about: "admin port of its cgn agent or cgn up (default: as the file says)",
    },
    "key-file": ADMIN_OPTIONS["key-file"],
  },
  async run({ options, positionals }, cli) {
    const [node = "", role = ""] = positionals;
    if (!ROLES.some((each) => each === role)) {
      throw new CgnError(
        "BAD_INVOCATION",
        `Cannot give role "${role}": there is no such role. There is ${ROLES.join(", ")}`,
        {},
      );
    }
    const admin = options["admin"];
    const places = typeof admin === "string" ? [baseUrl(admin, "--admin")] : adminPlaces(loadForCommand(options, cli));
    const query = new URLSearchParams({ node, role });
    const report = await askDaemon("change the role", `${ROLE_PATH}?${query}`, places, { options, cli });
    for (const line of reloadLines(report)) cli.out(line);
    return 0;
  },
};
