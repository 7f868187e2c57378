import { CgnError } from "../core/errors.ts";
import { ADMIN_OPTIONS, DEFAULT_ADMIN } from "./admin-client.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, type Values } from "./command.ts";
import { type Diagnosis, diagnosisText, exitOf } from "./doctor/diagnosis.ts";
import { isUsable, lookAtConfig, lookAtPorts } from "./doctor/look-at-config.ts";
import { lookAtEngines, lookAtHost } from "./doctor/look-at-host.ts";
import { processFindings, readProcess } from "./doctor/look-at-process.ts";
import { lookAtRouter } from "./doctor/look-at-router.ts";
import { portFindings } from "./doctor/port-findings.ts";
import { loadOptions } from "./load-config.ts";
import { leastNode } from "./package-version.ts";

/** `cgn doctor`: everything that is wrong on this host, whether a file says so or not. */
export const doctorCommand: Command = {
  name: "doctor",
  about: "say in plain words what is wrong on this host, why it matters and what to do; 1 when something is bad",
  examples: ["cgn doctor", "cgn doctor --all", "cgn doctor --json | jq '.found[] | select(.level == \"error\")'"],
  options: {
    ...CONFIG_OPTIONS,
    ...ADMIN_OPTIONS,
    all: { type: "boolean", about: "print what is as it should be too" },
    strict: { type: "boolean", about: "end with 1 for warnings too" },
    json: { type: "boolean", about: "print JSON" },
  },
  async run({ options }, cli) {
    const found = await examine(options, cli);
    const count = (level: Diagnosis["level"]): number => found.filter((each) => each.level === level).length;
    const [errors, warnings] = [count("error"), count("warning")];
    if (options["json"] === true) cli.out(JSON.stringify({ errors, warnings, found }, null, 2));
    else {
      const shown = options["all"] === true ? found : found.filter(({ level }) => level !== "good");
      if (shown.length > 0) cli.out(diagnosisText(shown));
      const more = options["all"] === true ? "" : ` (${count("good")} things are fine: --all shows them)`;
      cli.err(`${shown.length > 0 ? "\n" : ""}${errors} bad, ${warnings} to look at${more}`);
    }
    return exitOf(found, options["strict"] === true);
  },
};

/** @throws CgnError CALLER_LEFT */
async function examine(options: Values, cli: CliContext): Promise<Diagnosis[]> {
  const config = await lookAtConfig(loadOptions(options, cli), cli);
  const { loaded } = config;
  const usable = loaded !== undefined && isUsable(loaded) ? loaded : undefined;
  const parts = await Promise.all([
    readProcess(leastNode(), cli.clock.wall()).then(processFindings),
    config.found,
    lookAtEngines(cli),
    lookAtHost(usable, cli),
    usable === undefined ? [] : lookAtPorts(usable).then(portFindings),
    lookAtRouter(adminOf(options, usable?.settings.router.listenAdmin), cli),
  ]);
  if (cli.signal.aborted) throw new CgnError("CALLER_LEFT", "Interrupted", {});
  return parts.flat();
}

/** The file's own admin port, where none is named. */
function adminOf(options: Values, at: { readonly host: string; readonly port: number } | undefined): Values {
  if (options["admin"] !== DEFAULT_ADMIN || at === undefined || at.port === 0) return options;
  const host = at.host === "0.0.0.0" || at.host === "::" ? "127.0.0.1" : at.host;
  return { ...options, admin: `http://${host.includes(":") ? `[${host}]` : host}:${at.port}` };
}
