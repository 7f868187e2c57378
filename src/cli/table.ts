import { ENGINE_KINDS } from "../core/engine-kind.ts";
import type { EnvValue } from "../core/launch-plan.ts";
import { type SupportedRow, type TableRow, tableRows } from "../engines/table.ts";
import type { Command } from "./command.ts";
import { shellWord } from "./shell-words.ts";

/** `cgn table`: every engine × offload × role, what it adds or why it is refused. */
export const tableCommand: Command = {
  name: "table",
  about: "print what each engine makes of each KV offload and role",
  examples: ["cgn table", "cgn table --kind vllm", "cgn table --format json", "cgn table --format markdown"],
  options: {
    format: { type: "string", about: "text, JSON or markdown", default: "text", choices: ["text", "json", "markdown"] },
    kind: { type: "string", value: "KIND", about: "only this engine kind", choices: ENGINE_KINDS },
  },
  async run({ options }, cli) {
    const rows = tableRows().filter((row) => options["kind"] === undefined || row.engine === options["kind"]);
    if (options["format"] === "json") cli.out(JSON.stringify(rows, undefined, 2));
    else cli.out(options["format"] === "markdown" ? tableMarkdown(rows) : tableText(rows));
    return 0;
  },
};

/** One line a cell, then what it adds, indented. */
export function tableText(rows: readonly TableRow[]): string {
  const pad = (row: TableRow): string => `${row.engine.padEnd(13)} ${row.kvOffload.padEnd(7)} ${row.role.padEnd(7)}`;
  return rows
    .flatMap((row) => {
      if (!row.supported) return [`${pad(row)} no   ${row.reason}`];
      const details = [...additions(row), ...row.notes.map((note) => `note: ${note}`), ...proofs(row)];
      return [
        `${pad(row)} yes  ${details.length === 0 ? "nothing added" : ""}`.trimEnd(),
        ...details.map((d) => `    ${d}`),
      ];
    })
    .join("\n");
}

/** A heading and a table for each engine; the command line in code. */
export function tableMarkdown(rows: readonly TableRow[]): string {
  const kinds = ENGINE_KINDS.filter((kind) => rows.some((row) => row.engine === kind));
  return kinds
    .map((kind) => {
      const lines = rows.filter((row) => row.engine === kind).map(markdownLine);
      return `## ${kind}\n\n| offload | role | adds | notes | verified |\n| --- | --- | --- | --- | --- |\n${lines.join("\n")}`;
    })
    .join("\n\n");
}

function markdownLine(row: TableRow): string {
  const cells = row.supported
    ? [
        additions(row)
          .map((text) => `\`${text}\``)
          .join("<br>") || "nothing",
        row.notes.join("<br>"),
        proofs(row).join("<br>"),
      ]
    : ["refused", row.reason, ""];
  return `| ${[row.kvOffload, row.role, ...cells].map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

/** One text a flag or variable. */
function additions(row: SupportedRow): string[] {
  const flags: string[] = [];
  for (const word of row.args) {
    if (/^-{1,2}[A-Za-z]/.test(word) || flags.length === 0) flags.push(shellWord(word));
    else flags[flags.length - 1] += ` ${shellWord(word)}`;
  }
  return [...flags, ...Object.entries(row.env).map(([name, value]) => `${name}=${envText(value)}`)];
}

const envText = (value: EnvValue): string => (typeof value === "string" ? value : `(from ${value.secretFrom})`);

function proofs(row: SupportedRow): string[] {
  const found = row.verified.map((v) => `${v.engine} ${v.version} (${v.on}): ${v.how}`);
  const limit = row.notAsked === undefined ? [] : [`not asked: ${row.notAsked}`];
  return [...(found.length === 0 && row.notAsked === undefined ? ["unverified"] : found), ...limit];
}
