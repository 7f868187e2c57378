import { randomInt } from "node:crypto";
import { resolve } from "node:path";
import { CgnError } from "../core/errors.ts";
import { GIB } from "../core/units.ts";
import { verifyFolder, verifyFolderStreams } from "../kvcached/verify-folder.ts";
import type { StreamReport } from "../kvcached/verify-streams.ts";
import type { CliContext, Command } from "./command.ts";

/** `cgn kv verify`: is what we predict what the engine reported? */
export const kvVerifyCommand: Command = {
  name: "kv verify",
  about: "replay a capture against the index and compare predicted with reported cached tokens",
  examples: [
    "cgn kv verify capture/ --tokenizer /models/m",
    "cgn kv verify capture/ --tokenizer /models/m --agent-notices --json",
  ],
  positionals: [
    {
      name: "dir",
      about: "folder of a capture (frames.jsonl, requests.jsonl), or of frames files alone",
      required: true,
    },
  ],
  options: {
    tokenizer: {
      type: "string",
      value: "DIR",
      about: "folder (or GGUF) with the model's vocabulary and chat template",
    },
    "agent-notices": { type: "boolean", about: "tell restarts and cache resets at once, as the agent does" },
    "bytes-alone": { type: "boolean", about: "do not check whether generated tokens are canonical" },
    json: { type: "boolean", about: "print JSON" },
  },
  async run({ options, positionals }, cli) {
    const [dir] = positionals;
    if (dir === undefined)
      throw new CgnError("BAD_INVOCATION", "Cannot verify: no capture is named. Say cgn kv verify DIR", {});
    const tokenizer = options["tokenizer"];
    const given = {
      dir: resolve(cli.cwd, dir),
      ...(typeof tokenizer === "string" ? { tokenizer: resolve(cli.cwd, tokenizer) } : {}),
      agentNotices: options["agentNotices"] === true,
      bytesAlone: options["bytesAlone"] === true,
      env: cli.env,
      capBytes: 4 * GIB,
      seed: randomInt(2 ** 32),
    };
    const streams = await verifyFolderStreams(given);
    if (streams !== undefined) return tellStreams(streams, options["json"] === true, cli);
    const report = await verifyFolder(given);
    if (options["json"]) cli.out(JSON.stringify(report));
    else {
      cli.out(`${report.requests} requests: ${report.exact} exact, ${report.explained} explained by the capture`);
      for (const m of report.missed)
        cli.out(`request ${m.n}: predicted ${m.predicted}, reported ${m.reported} (${m.cause}): ${m.reason}`);
      if (report.uncountedBlocks > 0)
        cli.out(`${report.uncountedBlocks} blocks did not count: generated tokens that are not the ones of their text`);
    }
    return report.exact + report.explained === report.requests ? 0 : 1;
  },
};

function tellStreams(streams: readonly StreamReport[], json: boolean, cli: CliContext): number {
  if (json) cli.out(JSON.stringify({ streams }));
  else {
    for (const { file, frames, decoded, stored, removed, complaints } of streams) {
      cli.out(`${file}: ${decoded} of ${frames} messages understood, ${stored} blocks stored, ${removed} removed`);
      for (const complaint of complaints) cli.out(`  ${complaint}`);
      if (complaints.length === 0) cli.out("  no complaint");
    }
    cli.out("no requests to compare with: nothing is said of predictions");
  }
  return streams.every(({ complaints }) => complaints.length === 0) ? 0 : 1;
}
