import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../src/core/ids.ts";
import { kvHttpRoutes } from "../src/kvcached/kv-http.ts";
import { createKvcached } from "../src/kvcached/service.ts";
import { REAL_CLOCK, until } from "../src/kvcached/testing/fake-publisher.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { kvRoutes } from "../src/wire/kv-server.ts";
import { listenWire, type WireServer } from "../src/wire/listen.ts";
import { scratch } from "./helpers/cgn-process.ts";

const run = promisify(execFile);
const TEXT = "The archive keeps glass plates.";
const text = readFileSync(join(import.meta.dirname, "..", "docs", "kvcached.md"), "utf8");
const EXAMPLES = [...text.matchAll(/^curl .*$/gm)].map(([line]) => line);

/** What the answer of each must say, by a word of the command. */
const SAYS: readonly (readonly [string, RegExp])[] = [
  ["/Sources", /"worker":"w"/],
  ["/Stats", /"blocks":"3"/],
  ['"prompt"', /"worker":"w","tokens":12/],
  ['"tokenIds"', /"worker":"w","tokens":4/],
  ["/Register", /^\{\}$/],
  ["/Unregister", /^\{\}$/],
  ["/query", /"longest_matched":8,"GPU":8/],
  ["/metrics", /^cgn_kvcached_blocks\{tier="device"\} 3$/m],
];

function hasCurl(): boolean {
  try {
    execFileSync("curl", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

if (!hasCurl()) console.log("skipped: the examples of docs/kvcached.md (no curl here)");

describe.skipIf(!hasCurl())("docs/kvcached.md", () => {
  const place = scratch();
  const uds = join(place.dir, "kv.sock");
  const metrics = createMetrics({ processMetrics: false });
  const kv = createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 24, seed: 1, env: {}, metrics });
  let server: WireServer;

  beforeAll(async () => {
    const tcp = { host: "127.0.0.1", port: 0 };
    server = await listenWire({ routes: kvRoutes(kv), uds, tcp, http: kvHttpRoutes(kv, metrics) });
    kv.register({
      id: workerId("w"),
      node: nodeId("n"),
      kind: "vllm",
      traits: {},
      url: "http://127.0.0.1:1",
      models: ["sim"],
      role: "both",
      blockTokens: 4,
      kv: { type: "events", endpoint: "tcp://127.0.0.1:1", replay: "tcp://127.0.0.1:2", topic: "", dpRank: 0 },
      tokenizer: { bytes: true },
      state: "ready",
      reason: "",
      epoch: 1,
    });
    const slot = [...Array(64).keys()].find((each) => kv.index.workerOf(each) !== undefined) ?? -1;
    const ends = Uint32Array.of(4, 8, 12);
    const blocks = { root: "", parent: undefined, names: BigUint64Array.of(1n, 2n, 3n), ends, blockTokens: 4 };
    kv.index.store(slot, { ...blocks, bytes: Buffer.from(TEXT), tier: "device" });
    await until(() =>
      kv.decodePrompt("sim", [65]).then(
        () => true,
        () => false,
      ),
    );
  });

  afterAll(async () => {
    await server.close();
    kv.close();
    place.dispose();
  });

  it("has an example for each thing that may be asked", () => {
    expect(EXAMPLES).toHaveLength(SAYS.length);
  });

  it.each(SAYS)("its example with %s does what it says", async (word, says) => {
    const example = EXAMPLES.find((line) => line.includes(word)) ?? "false";
    const here = example
      .replaceAll("/run/cognitora/kv.sock", uds)
      .replaceAll("127.0.0.1:7071", `127.0.0.1:${server.port}`);
    const { stdout } = await run("bash", ["-c", here]);
    expect(stdout).toMatch(says);
  });
});
