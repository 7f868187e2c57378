import { readFileSync } from "node:fs";
import { hashApiKey, hashChosenKey, isMadeKey } from "../access/api-key.ts";
import { CgnError } from "../core/errors.ts";
import type { Command, Values } from "./command.ts";
import { KEY_OPTIONS, keyLine } from "./key-options.ts";

/** A key that has fewer characters is guessed, also against scrypt. */
const LEAST_CHOSEN = 12;

/** `cgn key hash`: the line of a keys file for a key that exists already. */
export const keyHashCommand: Command = {
  name: "key hash",
  about: "print the line of a keys file for a key that exists already, read from stdin",
  examples: ["cgn key hash --name old < old.key", "cgn key hash --chosen --name bob < bob.key"],
  options: {
    ...KEY_OPTIONS,
    chosen: { type: "boolean", about: "a person chose the key: derive it by scrypt, which makes guessing slow" },
  },
  async run({ options }, cli) {
    // Not as an argument: those stand in process lists and shell histories.
    const key = readFileSync(0, "utf8").replace(/\r?\n$/, "");
    if (options["chosen"] !== true && !isMadeKey(key) && new Set(key).size < 10)
      cli.err("This key does not look random: whoever reads its SHA-256 can guess it. Use --chosen");
    cli.out(await lineOfKey(key, options));
    return 0;
  },
};

/**
 * The line of a keys file for this key.
 * @throws CgnError BAD_INVOCATION for what is no key, or one that is guessed
 */
export async function lineOfKey(key: string, options: Values): Promise<string> {
  if (key === "" || /\s/.test(key)) {
    const is = key === "" ? "stdin is empty" : "it has blanks or line ends";
    throw new CgnError("BAD_INVOCATION", `Cannot hash the key: ${is}. Give one key on stdin`, {});
  }
  if (options["chosen"] !== true) return keyLine(hashApiKey(key), options);
  if (key.length < LEAST_CHOSEN) {
    const message = `Cannot take the key: it has ${key.length} characters. Choose at least ${LEAST_CHOSEN}, or use cgn key new`;
    throw new CgnError("BAD_INVOCATION", message, {});
  }
  return keyLine(await hashChosenKey(key), options);
}
