import { createReadStream, writeFileSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { createInterface } from "node:readline";
import { CgnError } from "../core/errors.ts";
import { TraceExport } from "../sim/replay/export-trace.ts";
import type { Command } from "./command.ts";

/** `cgn trace export`: a router's request log as a trace, without any content. */
export const traceExportCommand: Command = {
  name: "trace export",
  about:
    "make a trace for cgn replay of a router's request log (router.request_log): lengths, times and which blocks are equal, no content",
  examples: [
    "cgn trace export requests.jsonl --out trace.jsonl",
    "cgn trace export old.jsonl new.jsonl --model qwen3-8b --out trace.jsonl",
  ],
  positionals: [{ name: "log", about: "request logs, oldest first", required: true, variadic: true }],
  options: {
    out: { type: "string", value: "FILE", about: "where the trace goes (default: stdout)" },
    model: { type: "string", value: "NAME", about: "only this model's requests" },
  },
  async run({ options, positionals }, cli) {
    const made = new TraceExport(typeof options["model"] === "string" ? options["model"] : undefined);
    const pathOf = (file: string): string => (isAbsolute(file) ? file : resolve(cli.cwd, file));
    for (const file of positionals)
      await readLines(pathOf(file), (line, number) => made.add(line, `${file}:${number}`));
    const trace = made.finish();
    if (typeof options["out"] === "string") write(pathOf(options["out"]), `${trace.lines.join("\n")}\n`);
    else for (const line of trace.lines) cli.out(line);
    const { failed, otherModel, noLengths } = trace.left;
    const left = [
      ...(failed > 0 ? [`${failed} that were not answered`] : []),
      ...(otherModel > 0 ? [`${otherModel} of other models`] : []),
      ...(noLengths > 0 ? [`${noLengths} whose lengths the engine did not tell`] : []),
    ];
    cli.err(
      `${trace.requests} requests, blocks of about ${trace.blockTokens} tokens${left.length === 0 ? "" : `; left out: ${left.join(", ")}`}`,
    );
    return 0;
  },
};

async function readLines(path: string, take: (line: string, number: number) => void): Promise<void> {
  let number = 0;
  try {
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY }))
      take(line, ++number);
  } catch (e) {
    if (e instanceof CgnError) throw e;
    throw new CgnError(
      "TRACE_INVALID",
      `Cannot read the request log ${path}: ${e instanceof Error ? e.message : String(e)}`,
      { path },
    );
  }
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (e) {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot write the trace ${path}: ${e instanceof Error ? e.message : String(e)}`,
      { path },
    );
  }
}
