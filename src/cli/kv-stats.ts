import type { Command } from "./command.ts";
import { KV_ADDRESS_OPTIONS, kvClientFor, textTable } from "./kv-address.ts";

/** `cgn kv stats`: figures of the index. */
export const kvStatsCommand: Command = {
  name: "kv stats",
  about: "print the prefix index's figures: workers, blocks, memory, look-ups",
  examples: ["cgn kv stats", "cgn kv stats --uds /tmp/kv.sock --json"],
  options: KV_ADDRESS_OPTIONS,
  async run({ options }, cli) {
    const client = kvClientFor(options, cli);
    try {
      const stats = await client.stats();
      cli.out(
        options["json"] ? JSON.stringify(stats) : textTable(Object.entries(stats).map(([k, v]) => [k, String(v)])),
      );
    } finally {
      client.close();
    }
    return 0;
  },
};
