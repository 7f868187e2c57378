import type { Command, Option } from "./command.ts";

/** Text as roff shows it: no request at a line's start, no escapes, hyphens that can be copied. */
function roff(text: string): string {
  return text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll(/^([.'])/gm, "\\&$1");
}

const EXITS: readonly (readonly [number, string])[] = [
  [0, "clean"],
  [1, "other failure"],
  [2, "bad invocation"],
  [3, "configuration invalid"],
  [4, "dependency unreachable"],
  [5, "TLS or key material"],
  [6, "engine failure"],
  [7, "port in use"],
  [8, "storage not usable"],
  [9, "not supported here"],
  [10, "drained on request"],
  [130, "SIGINT"],
  [143, "SIGTERM"],
];

/** cgn(1), from the commands' data. */
export function manPage(commands: readonly Command[], version: string): string {
  const sections = commands.flatMap((command) => [
    `.SS ${roff(`cgn ${command.name}${argumentsOf(command)}`)}`,
    `${roff(command.about)}.`,
    ...(command.positionals ?? []).flatMap(({ name, about }) => [".TP", `.I ${roff(name)}`, roff(about)]),
    ...Object.entries(command.options).flatMap(([name, option]) => [".TP", flag(name, option), roff(option.about)]),
    ".PP",
    "Examples:",
    ".nf",
    ...command.examples.map((line) => `.RS 4\n${roff(line)}\n.RE`),
    ".fi",
  ]);
  return `${[
    `.TH CGN 1 "" "cgn ${version}" "User commands"`,
    ".SH NAME",
    "cgn \\- LLM inference control plane: engines behind one endpoint that re\\-uses KV cache well",
    ".SH SYNOPSIS",
    ".B cgn",
    "COMMAND [OPTIONS]",
    ".SH DESCRIPTION",
    roff(
      "Turns vLLM, SGLang, llama.cpp, MLX or any OpenAI-compatible engine, on one or many machines, into one endpoint. Data goes to stdout, talk to stderr.",
    ),
    ".SH COMMANDS",
    ...sections,
    ".SH FILES",
    ".TP",
    ".I ./cgn.toml, /etc/cognitora/cognitora.toml",
    "The configuration, where neither \\-\\-config nor $CGN_CONFIG names one.",
    ".SH ENVIRONMENT",
    ".TP",
    ".B CGN_CONFIG",
    "The configuration file.",
    ".TP",
    ".B CGN__SECTION__KEY",
    "Overrides a key of the file.",
    ".TP",
    ".B NO_COLOR",
    "No colour.",
    ".SH EXIT STATUS",
    ...EXITS.flatMap(([code, meaning]) => [".TP", `.B ${code}`, roff(meaning)]),
  ].join("\n")}\n`;
}

function argumentsOf({ positionals = [] }: Command): string {
  return positionals
    .map(({ name, required, variadic }) => {
      const word = variadic === true ? `${name}...` : name;
      return required ? ` ${word}` : ` [${word}]`;
    })
    .join("");
}

function flag(name: string, option: Option): string {
  if (option.type === "boolean") return `.B ${roff(`--${name}`)}`;
  return `.BI ${roff(`--${name}`)} " ${roff(option.value ?? "VALUE")}"`;
}
