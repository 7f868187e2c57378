import {
  Argument,
  Command as Commander,
  CommanderError,
  Option as CommanderOption,
  InvalidArgumentError,
} from "commander";
import type { CliContext, Command, NumberRange, Option, Values } from "./command.ts";

const readNumber =
  (range: NumberRange) =>
  (text: string): number => {
    const value = Number(text);
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, whole = false } = range;
    const fits = text.trim() !== "" && Number.isFinite(value) && value >= min && value <= max;
    if (!fits || (whole && !Number.isInteger(value))) throw new InvalidArgumentError(`It must be ${rangeText(range)}.`);
    return value;
  };

/** `a whole number from 1 to 65535`. */
export function rangeText({ min, max, whole }: NumberRange): string {
  const what = whole === true ? "a whole number" : "a number";
  if (min !== undefined && max !== undefined) return `${what} from ${min} to ${max}`;
  if (min !== undefined) return `${what}, at least ${min}`;
  return max === undefined ? what : `${what}, at most ${max}`;
}

const collect = (text: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), text];

function flagsOf(name: string, option: Option): string {
  if (option.type === "boolean") return `--${name}`;
  return `--${name} <${option.value ?? "VALUE"}${option.variadic ? "..." : ""}>`;
}

function toCommanderOption(name: string, option: Option): CommanderOption {
  const made = new CommanderOption(flagsOf(name, option), option.about);
  if (option.choices !== undefined) made.choices([...option.choices]);
  if (option.type === "number") made.argParser(readNumber(option));
  if (option.type === "string[]" && !option.variadic) made.argParser(collect);
  if (option.default !== undefined) made.default(option.default);
  return made;
}

/** The parent of `kv verify` is made when its first child comes. */
function parentOf(root: Commander, words: readonly string[], groups: Readonly<Record<string, string>>): Commander {
  let parent = root;
  for (const word of words) {
    const found = parent.commands.find((c) => c.name() === word);
    parent = found ?? parent.command(word).description(groups[word] ?? "");
  }
  return parent;
}

function addCommand(
  root: Commander,
  command: Command,
  run: (code: Promise<number | undefined>) => void,
  cli: CliContext,
  groups: Readonly<Record<string, string>>,
): void {
  const words = command.name.split(" ");
  const made = parentOf(root, words.slice(0, -1), groups).command(words.at(-1) ?? command.name);
  made.description(command.about);
  for (const p of command.positionals ?? []) {
    const word = p.variadic ? `${p.name}...` : p.name;
    const argument = new Argument(p.required ? `<${word}>` : `[${word}]`, p.about);
    made.addArgument(p.choices === undefined ? argument : argument.choices([...p.choices]));
  }
  for (const [name, option] of Object.entries(command.options)) made.addOption(toCommanderOption(name, option));
  made.addHelpText("after", `\nExamples:\n${command.examples.map((line) => `  ${line}`).join("\n")}`);
  made.action((...all: unknown[]) => {
    const given = all.at(-1) as Commander;
    const positionals = given.args;
    run(command.run({ options: given.opts() as Values, positionals }, cli));
  });
}

/** What the command line answers: an exit code. Help and version are 0, a wrong invocation 2. */
export async function runProgram(
  commands: readonly Command[],
  argv: readonly string[],
  cli: CliContext,
  about: { readonly version: string; readonly groups: Readonly<Record<string, string>> },
): Promise<number> {
  const root = new Commander("cgn");
  root.description("LLM inference control plane: engines behind one endpoint that re-uses KV cache well");
  root.version(about.version);
  root.exitOverride();
  const print = { writeOut: (s: string) => cli.out(s.trimEnd()), writeErr: (s: string) => cli.err(s.trimEnd()) };
  root.configureOutput(print);
  let running: Promise<number | undefined> | undefined;
  for (const command of commands) addCommand(root, command, (code) => (running = code), cli, about.groups);
  for (const made of allCommands(root)) made.exitOverride().configureOutput(print);
  try {
    await root.parseAsync([...argv], { from: "user" });
  } catch (e) {
    if (!(e instanceof CommanderError)) throw e;
    return e.exitCode === 0 ? 0 : 2;
  }
  return (await running) ?? 0;
}

function allCommands(root: Commander): Commander[] {
  return root.commands.flatMap((c) => [c, ...allCommands(c)]);
}
