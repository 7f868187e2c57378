import { type ExplainedValue, explainConfig, formatOrigin } from "../config/explain.ts";
import { loadConfig } from "../config/load.ts";
import { formatProblem } from "../config/problems.ts";
import { CODES } from "../core/errors.ts";
import { CONFIG_OPTIONS, type Command } from "./command.ts";
import { loadOptions } from "./load-config.ts";

/** `cgn config explain`: every value with its origin. */
export const configExplainCommand: Command = {
  name: "config explain",
  about: "show every value of the configuration and where it came from: default, file and line, variable, flag",
  examples: [
    "cgn config explain",
    "cgn config explain --config cgn.toml --written",
    "cgn config explain --format json",
  ],
  options: {
    ...CONFIG_OPTIONS,
    written: { type: "boolean", about: "only what the file, the environment or a flag sets" },
    format: { type: "string", value: "FORMAT", about: "text or json", default: "text", choices: ["text", "json"] },
  },
  async run({ options }, cli) {
    const loaded = loadConfig(loadOptions(options, cli));
    const values = explainConfig(loaded).filter((each) => options.written !== true || each.origin.from !== "default");
    if (options.format === "json") cli.out(JSON.stringify(values.map(toJson), null, 2));
    else for (const line of table(values)) cli.out(line);
    for (const problem of loaded.problems) cli.err(formatProblem(problem));
    return loaded.problems.some((p) => p.severity === "error") ? CODES.CONFIG_INVALID.exit : 0;
  },
};

function toJson(each: ExplainedValue): object {
  return { ...each, value: each.value ?? null, source: formatOrigin(each.origin) };
}

/** Keys, values and origins in columns; long values do not move the others. */
function table(values: readonly ExplainedValue[]): string[] {
  const rows = values.map((each) => [each.key, valueText(each), formatOrigin(each.origin)] as const);
  const width = (column: 0 | 1, most: number): number =>
    Math.min(most, Math.max(0, ...rows.map((row) => row[column].length)));
  const [keys, texts] = [width(0, 48), width(1, 40)];
  return rows.map(([key, text, origin]) => `${key.padEnd(keys)}  ${text.padEnd(texts)}  ${origin}`);
}

function valueText({ value, note }: ExplainedValue): string {
  if (value !== undefined) return JSON.stringify(value);
  return note === undefined ? "(not set)" : `(${note})`;
}
