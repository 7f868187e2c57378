/** A legacy argv template as words, or what is wrong with it. */
export type CommandTemplate =
  | { readonly words: readonly string[] }
  | { readonly problem: string; readonly remedy: string };

/**
 * Read `[agent].vllm_cmd`: a list of words, or one text that is split at spaces (quotes keep spaces). No shell ever reads
 * it, so a text that needs one is refused, and so is a placeholder other than `{model}` and `{tp}`.
 */
export function readCommandTemplate(written: string | readonly string[]): CommandTemplate {
  if (typeof written === "string" && /[|&;<>`]|\$[({A-Za-z]/.test(unquoted(written))) {
    return {
      problem: "needs a shell, and cgn starts engines without one",
      remedy: "Write the words of one command as a list, and set variables in the agent's environment",
    };
  }
  const words = typeof written === "string" ? splitWords(written) : [...written];
  if (words === undefined) return { problem: "has an open quote", remedy: "Close it, or write the words as a list" };
  const unknown = words
    .flatMap((word) => word.match(/\{[a-z_]+\}/g) ?? [])
    .find((p) => p !== "{model}" && p !== "{tp}");
  if (unknown !== undefined) {
    return { problem: `has the unknown placeholder ${unknown}`, remedy: "Use {model} and {tp}" };
  }
  return { words };
}

const unquoted = (text: string): string => text.replaceAll(/'[^']*'|"[^"]*"/g, "");

/** Split at spaces outside quotes; undefined for an open quote. */
function splitWords(text: string): string[] | undefined {
  const words: string[] = [];
  const word = /\s+|((?:[^\s"']|"[^"]*"|'[^']*')+)/y;
  let at = 0;
  while (at < text.length) {
    word.lastIndex = at;
    const found = word.exec(text);
    if (found === null) return undefined;
    if (found[1] !== undefined) words.push(found[1].replaceAll(/"([^"]*)"|'([^']*)'/g, (_, a, b) => a ?? b));
    at += found[0].length;
  }
  return words;
}
