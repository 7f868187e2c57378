import { resolve } from "node:path";
import { readKeyFile } from "../access/key-file.ts";
import type { KeyEntry } from "../access/key-lines.ts";
import { CgnError } from "../core/errors.ts";
import { CONFIG_OPTIONS, type Command } from "./command.ts";
import { textTable } from "./kv-address.ts";
import { loadForCommand } from "./load-config.ts";

/** `cgn key list`: who has keys, and what they may. */
export const keyListCommand: Command = {
  name: "key list",
  about: "list the keys of the configuration and its keys file: names, scopes, models, limits; never keys",
  examples: ["cgn key list", "cgn key list --file keys --json"],
  options: {
    ...CONFIG_OPTIONS,
    file: { type: "string", value: "FILE", about: "this keys file alone" },
    json: { type: "boolean", about: "print JSON" },
  },
  async run({ options }, cli) {
    const keys = (typeof options["file"] === "string" ? readKeyFile(resolve(cli.cwd, options["file"])) : all()).map(
      plain,
    );
    function all(): readonly KeyEntry[] {
      const { auth } = loadForCommand(options, cli);
      const file = auth.apiKeysFile === undefined ? [] : readKeyFile(resolve(cli.cwd, auth.apiKeysFile));
      if (auth.keys.length + file.length > 0 || auth.apiKeysFile !== undefined) return [...auth.keys, ...file];
      const message = "Cannot list keys: the configuration names none. Write [auth].api_keys_file, or give --file";
      throw new CgnError("BAD_INVOCATION", message, {});
    }
    if (options["json"] === true) cli.out(JSON.stringify(keys, null, 2));
    else if (keys.length === 0) cli.out("no keys");
    else {
      const rows = keys.map((k) => [
        k.id,
        k.name,
        k.scopes.join(","),
        k.models?.join(",") ?? "all",
        [...asWritten(k.limits), ...(k.priority === undefined ? [] : [`priority=${k.priority}`])].join(" ") || "-",
        k.expires ?? "-",
      ]);
      cli.out(textTable([["ID", "NAME", "SCOPES", "MODELS", "LIMITS", "EXPIRES"], ...rows]));
    }
    return 0;
  },
};

/** As the keys file spells them. */
function asWritten(limits: KeyEntry["limits"]): string[] {
  return Object.entries(limits).map(
    ([name, value]) => `${name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)}=${value}`,
  );
}

function plain({ hash, name, scopes, models, priority, limits, expiresAtMs }: KeyEntry) {
  return {
    id: typeof hash === "string" ? hash.slice(0, 12) : hash.derived.toString("hex", 0, 6),
    kind: typeof hash === "string" ? "sha256" : "scrypt",
    name,
    scopes,
    ...(models === undefined ? {} : { models }),
    ...(priority === undefined ? {} : { priority }),
    limits,
    ...(expiresAtMs === undefined ? {} : { expires: new Date(expiresAtMs).toISOString() }),
  };
}
