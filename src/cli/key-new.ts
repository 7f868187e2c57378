import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { hashApiKey, newApiKey } from "../access/api-key.ts";
import { CgnError } from "../core/errors.ts";
import type { Command } from "./command.ts";
import { KEY_OPTIONS, keyLine } from "./key-options.ts";

/** `cgn key new`: make a key, show it once, keep its hash. */
export const keyNewCommand: Command = {
  name: "key new",
  about: "make an API key: the key goes to stdout, once; its hash, with its limits, to the keys file",
  examples: [
    "cgn key new --name alice --file /etc/cognitora/api_keys",
    "cgn key new --name batch --models 'qwen*' --rpm 60 --tpm 200000 --file keys",
    "cgn key new --name ops --scopes admin,metrics > ops.key",
  ],
  options: {
    ...KEY_OPTIONS,
    file: {
      type: "string",
      value: "FILE",
      about: "append to this keys file (auth.api_keys_file); without it the line is shown",
    },
  },
  async run({ options }, cli) {
    const key = newApiKey();
    const line = keyLine(hashApiKey(key), options);
    if (typeof options["file"] === "string") append(resolve(cli.cwd, options["file"]), line);
    else cli.err(`A line for the keys file:\n${line}`);
    cli.out(key);
    return 0;
  },
};

/** @throws CgnError STORAGE_UNUSABLE */
function append(file: string, line: string): void {
  try {
    const before = existsSync(file) ? readFileSync(file, "utf8") : "";
    appendFileSync(file, `${before === "" || before.endsWith("\n") ? "" : "\n"}${line}\n`, { mode: 0o600 });
  } catch (e) {
    const said = e instanceof Error ? e.message : String(e);
    throw new CgnError("STORAGE_UNUSABLE", `Cannot write the keys file "${file}": ${said}. Name one that can be`, {
      file,
    });
  }
}
