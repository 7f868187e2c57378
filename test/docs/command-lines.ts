import type { Command } from "../../src/cli/command.ts";
import { blocksOf, spansOf } from "./markdown.ts";

/** Options that commander adds. */
const ALWAYS = new Set(["--help", "--version"]);

/** Command lines of `cgn` in a page: in its shell blocks, run or not, and in code spans. */
function commandLines(text: string): string[] {
  const blocks = blocksOf(text).filter(({ lang }) => lang === "sh");
  const lines = blocks.flatMap((block) => block.text.replaceAll(/\\\n\s*/g, " ").split("\n"));
  return [...lines, ...spansOf(text)]
    .map((line) => line.replaceAll(/'[^']*'|"[^"]*"/g, "'…'").replace(/\s#.*$/, ""))
    .flatMap((line) => line.split(/&&|\|\||[|;]|\$\(/))
    .map((part) => part.trim())
    .filter((part) => /^(?:\.\/)?cgn(?: |$)/.test(part));
}

/** What a page says of the command line that is not so. */
export function wrongCommands(text: string, commands: readonly Command[]): string[] {
  return commandLines(text).flatMap((line) => {
    const [, ...words] = line.split(/\s+/);
    // Placeholders (`cgn COMMAND --help`) and other names that begin so (`cgn CA`) are no commands.
    if (words[0] === undefined || /^(?:…|-|[A-Z]+\b)/.test(words[0])) return [];
    const named = commands
      .filter(({ name }) => `${words.join(" ")} `.startsWith(`${name} `))
      .sort((a, b) => b.name.length - a.name.length)[0];
    if (named === undefined) {
      const isGroup = commands.some(({ name }) => name.startsWith(`${words[0]} `));
      return isGroup && words.length === 1 ? [] : [`there is no command: ${line}`];
    }
    const end = words.indexOf("--");
    return (end < 0 ? words : words.slice(0, end))
      .filter((word) => word.startsWith("--"))
      .map((word) => word.split("=")[0]?.replace(/[,)\]]+$/, "") ?? "")
      .filter((flag) => !ALWAYS.has(flag) && !(flag.slice(2) in named.options))
      .map((flag) => `cgn ${named.name} has no ${flag}: ${line}`);
  });
}
