import type { Command } from "./command.ts";
import { KV_ADDRESS_OPTIONS, kvClientFor, textTable } from "./kv-address.ts";
import { exactness, trustLines } from "./kv-trust-lines.ts";

/** `cgn kv sources`: where knowledge comes from, and how good it is. */
export const kvSourcesCommand: Command = {
  name: "kv sources",
  about: "print each worker's event source: state, counts, truth meter, what to mend",
  examples: ["cgn kv sources", "cgn kv sources --json"],
  options: KV_ADDRESS_OPTIONS,
  async run({ options }, cli) {
    const client = kvClientFor(options, cli);
    try {
      const sources = await client.sources();
      if (options["json"]) {
        cli.out(JSON.stringify(sources));
        return 0;
      }
      const rows = sources.map((s) => [
        s.worker,
        s.model,
        s.origin === undefined ? s.type : `${s.type} (${s.origin})`,
        s.state,
        String(s.blocks),
        `${s.predictedTokens}/${s.reportedTokens}`,
        exactness(s),
        s.parity === "unknown" || s.parity === "equal" || s.parity.length < 24 ? s.parity : `${s.parity.slice(0, 23)}…`,
        s.detail,
      ]);
      cli.out(
        textTable([
          ["WORKER", "MODEL", "TYPE", "STATE", "BLOCKS", "PREDICTED/REPORTED", "EXACT 10 MIN", "PARITY", "DETAIL"],
          ...rows,
        ]),
      );
      for (const line of trustLines(sources)) cli.out(line);
    } finally {
      client.close();
    }
    return 0;
  },
};
