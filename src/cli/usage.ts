import type { Usage } from "../access/usage-ledger.ts";
import { ADMIN_OPTIONS, askAdmin } from "./admin-client.ts";
import type { Command } from "./command.ts";
import { textTable } from "./kv-address.ts";

/** `cgn usage`: what each key used since the router started. */
export const usageCommand: Command = {
  name: "usage",
  about: "print what each key or token subject used since the router started: requests and tokens",
  examples: ["cgn usage", "cgn usage --json", "cgn usage --admin http://10.0.0.5:9091 --key-file ops.key"],
  options: { ...ADMIN_OPTIONS, json: { type: "boolean", about: "print JSON" } },
  async run({ options }, cli) {
    const text = await askAdmin("/v1/cgn/usage", options, cli);
    const { usage } = JSON.parse(text) as { usage: readonly Usage[] };
    if (options["json"] === true) {
      cli.out(JSON.stringify(usage, null, 2));
      return 0;
    }
    if (usage.length === 0) {
      cli.out("no requests yet");
      return 0;
    }
    const rows = usage.map((u) => [
      u.subject.replaceAll(/\p{Cc}/gu, " "),
      u.keyId ?? "-",
      String(u.requests),
      String(u.failed),
      String(u.promptTokens),
      u.promptTokens === 0 ? "-" : `${Math.round((100 * u.cachedTokens) / u.promptTokens)} %`,
      String(u.completionTokens),
      u.lastAt === 0 ? "-" : new Date(u.lastAt).toISOString(),
    ]);
    cli.out(textTable([["SUBJECT", "KEY", "REQUESTS", "FAILED", "PROMPT", "CACHED", "GENERATED", "LAST"], ...rows]));
    return 0;
  },
};
