import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { CASES } from "./cases.ts";
import { compare } from "./compare.ts";
import { type ComparedKind, whyKnown } from "./known.ts";
import { type Recorded, readRecorded, record } from "./record.ts";

/**
 * The differential test by hand. Two engines are running, or one and a file:
 *
 *     node conformance/differential/main.ts llama_cpp REAL SIMULATED
 *     node conformance/differential/main.ts record REAL FILE.jsonl.gz
 *
 * REAL and SIMULATED are URLs, or files that `record` wrote. Prints what differs; ends with 1 when something does that is
 * not known (known.ts).
 */
async function main([what, first, second]: readonly string[]): Promise<number> {
  if (what === undefined || first === undefined || second === undefined) {
    console.error("usage: main.ts record URL FILE | main.ts llama_cpp|vllm|sglang REAL SIMULATED");
    return 2;
  }
  if (what === "record") {
    const answers = await answersOf(first);
    writeFileSync(second, gzipSync(`${answers.map((each) => JSON.stringify(each)).join("\n")}\n`));
    return 0;
  }
  const differences = compare(await answersOf(first), await answersOf(second));
  let unknown = 0;
  for (const each of differences) {
    const why = whyKnown(what as ComparedKind, each);
    if (why === undefined) unknown++;
    console.log(`${each.name} (${each.what})${why === undefined ? "" : `: known, ${why}`}`);
    if (why === undefined) console.log(`  real:      ${each.real}\n  simulated: ${each.simulated}`);
  }
  console.log(`${CASES.length} requests, ${differences.length} differences, ${unknown} of them not known`);
  return unknown === 0 ? 0 : 1;
}

async function answersOf(place: string): Promise<readonly Recorded[]> {
  if (!place.startsWith("http://")) return readRecorded(place);
  return record(place, CASES, (done) => process.stderr.write(`\r${place}: ${done} of ${CASES.length} `));
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
