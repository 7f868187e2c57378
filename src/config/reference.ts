import type { z } from "zod";
import type { Engine } from "../engines/engine.ts";
import { ENGINES } from "../engines/registry.ts";
import { configSchema } from "./config-schema.ts";
import { environmentName } from "./environment.ts";
import { NOT_YET } from "./not-yet.ts";
import { type KeyInfo, keyInfo, type Shape } from "./schema-walk.ts";

const INTRODUCTION = `# Configuration

Generated from the schemas by \`npm run docs\`; edits here are lost.

\`cgn\` reads one TOML file: \`--config FILE\`, else \`$CGN_CONFIG\`, else \`./cgn.toml\`, else
\`/etc/cognitora/cognitora.toml\`. A file that was named and is not there is an error (exit 3). \`cgn check\` tells every
problem with its line, \`cgn config explain\` where each value came from, and \`cgn.schema.json\` serves editors.

- **Order**: defaults, file, environment, flags; the later wins. Every key has a variable (\`CGN__SECTION__KEY\`, two
  underscores between levels) and can be set by \`--set section.key=value\`. Lists are JSON or comma separated there,
  booleans \`true\`, \`false\`, \`1\` or \`0\`. In the variable of a model or an engine kind, what is no letter and no digit is \`_\`:
  \`CGN__MODELS__QWEN3_8B__TP\`; entries of \`[[engines]]\` count from 0: \`CGN__ENGINES__0__PORT\`.
- **Durations** are texts such as \`"800ms"\`, \`"5s"\`, \`"1m30s"\` (units ms, s, m, h, d). Each has a twin with \`_ms\` that takes whole
  milliseconds.
- **Secrets** have a twin with \`_file\`: the path of a file that holds the value. They are never printed.
- **A limit binds only when it is written.** The old defaults of such keys serve the policy \`weighted\` for normalising.
- **Folders**: a default below \`/run/cognitora\` or \`/var/lib/cognitora\` falls to the user's XDG folders where it cannot be
  written. A written folder (or socket) that cannot be made or written is an error of the daemon that uses it, at its start
  (exit 8). A log folder that fills up later costs log lines, nothing else.
- **Unknown keys** are warnings with the nearest known key. Keys marked *not used* are read from old files; they are warned
  about when they ask for something, with what to set instead.
- **Engines**: \`[engine]\` is one engine; with several \`[models]\` each model gets one (the first has the written port and GPUs,
  the others what follows). \`[[engines]]\` lists several; then \`[engine]\` holds what its entries have in common (all but
  \`url\`, \`port\`, \`model\`, \`node_id\`, \`gpus\`, \`gpu_index\`). A file with \`[agent]\` and \`[models]\` and no engine means one vLLM.
- **Side ports** (KV events, replay, NIXL, bootstrap, …): each engine has 64 of its own, from
  \`side_port_base + 64 × (HTTP port mod 199)\` on, or the next free block in the file's order. The same file always gives the same.
- **Rendering for this host or not**: commands are rendered for a GPU unless \`[agent].platform\` says otherwise, so that \`cgn render\` prints
  the same everywhere; what still depends on the host are the number of cores (llama.cpp's threads), folders and the package's own path.
`;

const HEAD = "| key | default | unit | meaning | environment |\n| --- | --- | --- | --- | --- |\n";

/** Text of `docs/configuration.md`: every key with default, unit, meaning and variable, section by section. */
export function configReferenceMarkdown(engines: readonly Engine[] = ENGINES): string {
  const { shape } = keyInfo(configSchema(engines));
  const sections = shape.type === "table" ? Object.entries(shape.fields) : [];
  const texts = sections.flatMap(([name, schema]) => sectionTexts(schema, [name]));
  return `${[INTRODUCTION, ...texts].join("\n")}`;
}

/** A section, and each table below it as a section of its own. `[[engines]]` is told in words. */
function sectionTexts(schema: z.ZodType, path: readonly string[]): string[] {
  const info = keyInfo(schema);
  const { shape } = info;
  if (shape.type === "list") return [`## \`[[${path.join(".")}]]\`\n\n${info.meta.description}.\n`];
  if (shape.type === "record")
    return sectionTexts(shape.value, [...path, '"NAME"']).map((text, n) => (n === 0 ? withMeaning(text, info) : text));
  if (shape.type !== "table") return [];
  const keys = Object.entries(shape.fields);
  const isTable = (field: z.ZodType): boolean => isSection(keyInfo(field).shape);
  const leaves = keys.filter(([, field]) => !isTable(field));
  const tables = keys.filter(([, field]) => isTable(field));
  const rows = leaves.flatMap(([name, field]) => row(name, field, path));
  const aliases = (info.meta.aliases ?? []).map((alias) => `\`[${[...path.slice(0, -1), alias].join(".")}]\``);
  const also = aliases.length === 0 ? "" : ` Also read as ${aliases.join(", ")}.`;
  const head = `## \`[${path.join(".")}]\`\n\n${sentence(info)}${also}\n\n`;
  return [`${head}${HEAD}${rows.join("")}`, ...tables.flatMap(([name, field]) => sectionTexts(field, [...path, name]))];
}

/** A record of plain values (`env`) is a key, one of tables (`[models."NAME"]`) a section. */
function isSection(shape: Shape): boolean {
  return shape.type === "table" || (shape.type === "record" && isSection(keyInfo(shape.value).shape));
}

function withMeaning(text: string, info: KeyInfo): string {
  return text.replace("\n\n\n\n", `\n\n${sentence(info)}\n\n`);
}

function sentence({ meta }: KeyInfo): string {
  if (meta.description === undefined) return "";
  return `${meta.unsupported ? "*Not used.* " : ""}${meta.description}${/[.:`]$/.test(meta.description) && !meta.description.endsWith("`") ? "" : "."}`;
}

function row(name: string, schema: z.ZodType, path: readonly string[]): string[] {
  const info = keyInfo(schema);
  const { meta, shape } = info;
  const twins = [meta.duration ? `${name}_ms` : "", meta.secret ? `${name}_file` : "", ...(meta.aliases ?? [])].filter(
    Boolean,
  );
  const also = twins.length === 0 ? "" : ` Also read: ${twins.map((twin) => `\`${twin}\``).join(", ")}.`;
  const choices = shape.type === "choice" ? ` One of ${shape.values.map((v) => `\`${v}\``).join(", ")}.` : "";
  const at = [...path, name].join(".");
  const unused = NOT_YET.some((key) => key.path.join(".") === at) ? "*Not used.* " : "";
  const meaning = `${unused}${sentence(info)}${choices}${also}`;
  const variable = environmentName([...path, name].map((step) => step.replaceAll('"', "")));
  const cells = [`\`${name}\``, defaultCell(info), meta.unit ?? typeCell(shape), meaning, `\`${variable}\``];
  return [`| ${cells.map(cell).join(" | ")} |\n`, ...itemRows(name, shape, path)];
}

/** Keys of the tables in a list (`scrape_targets`). */
function itemRows(name: string, shape: Shape, path: readonly string[]): string[] {
  if (shape.type !== "list") return [];
  const item = keyInfo(shape.item).shape;
  if (item.type !== "table") return [];
  return Object.entries(item.fields).map(([key, field]) => {
    const info = keyInfo(field);
    const cells = [
      `\`${name}[].${key}\``,
      defaultCell(info),
      info.meta.unit ?? typeCell(info.shape),
      sentence(info),
      `(in \`${environmentName([...path, name])}\`)`,
    ];
    return `| ${cells.map(cell).join(" | ")} |\n`;
  });
}

function defaultCell({ fallback, meta }: KeyInfo): string {
  if (meta.defaultText !== undefined) return meta.defaultText;
  if (fallback === undefined) return "not set";
  return `\`${typeof fallback === "string" ? JSON.stringify(fallback) : JSON.stringify(fallback).replaceAll(",", ", ")}\``;
}

function typeCell(shape: Shape): string {
  switch (shape.type) {
    case "choice":
      return "one word";
    case "union":
      return "text or list";
    case "list":
      return "list";
    case "record":
      return "table";
    case "any":
      return "any";
    default:
      return shape.type;
  }
}

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");
