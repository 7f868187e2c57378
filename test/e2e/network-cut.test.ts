import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { encode } from "@msgpack/msgpack";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../../src/core/ids.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { createMirror, type Mirror } from "../../src/kvcached/mirror.ts";
import { type FakePublisher, REAL_CLOCK, startFakePublisher } from "../../src/kvcached/testing/fake-publisher.ts";
import { connectKv, type KvClient } from "../../src/wire/kv-client.ts";
import { type CgnProcess, freePorts, scratch, startCgn, until } from "../helpers/cgn-process.ts";

const ip = (...args: readonly string[]): string => execFileSync("ip", args, { encoding: "utf8", stdio: "pipe" });
const NAME = `cgn${process.pid}`;
const [OURS, THEIRS] = ["10.213.7.1", "10.213.7.2"];

/** Why a network cannot be made and cut here; undefined: it can. */
function whyNot(): string | undefined {
  try {
    ip("netns", "add", NAME);
    ip("netns", "del", NAME);
    return undefined;
  } catch {
    return "network namespaces need Linux, iproute2 and root";
  }
}

const BLOCK = 16;
const TEXT = "The observatory's archive has glass plates, night logs and letters. ".repeat(8);
const prompt = new TextEncoder().encode(TEXT);
let clock = 1_000;
/** The message that tells of one more block of `TEXT`. */
const stored = (block: number): Uint8Array => {
  const ids = [...prompt.subarray(block * BLOCK, (block + 1) * BLOCK)];
  return encode([clock++, [["BlockStored", [block + 1], block === 0 ? null : block, ids, BLOCK, null]]]);
};

const reason = whyNot();
if (reason !== undefined) console.log(`skipped: kvcached behind a network that is cut (${reason})`);

describe.skipIf(reason !== undefined)("kvcached behind a network that is cut", () => {
  const place = scratch();
  let kvcached: CgnProcess;
  let engine: FakePublisher;
  let client: KvClient;
  let mirror: Mirror;
  const held = (): number => mirror.match({ model: "m", root: "", prompt })[0]?.tokens ?? 0;
  const state = (): string => mirror.status()[0]?.state ?? "";
  const words = (): string => `${kvcached.output()}\n${JSON.stringify(mirror?.status())}`;

  beforeAll(async () => {
    ip("netns", "add", NAME);
    ip("link", "add", `${NAME}a`, "type", "veth", "peer", "name", `${NAME}b`, "netns", NAME);
    ip("addr", "add", `${OURS}/30`, "dev", `${NAME}a`);
    ip("link", "set", `${NAME}a`, "up");
    ip("-n", NAME, "addr", "add", `${THEIRS}/30`, "dev", `${NAME}b`);
    ip("-n", NAME, "link", "set", `${NAME}b`, "up");
    const [port = 0] = await freePorts(1);
    const listen = `${THEIRS}:${port}`;
    const toml = place.file("cgn.toml", `[kv]\nindex_dir = "${join(place.dir, "index")}"\n`);
    kvcached = startCgn(
      ["kvcached", "--config", toml, "--uds", join(place.dir, "kv.sock"), "--listen", listen],
      {},
      place.dir,
      ["ip", "netns", "exec", NAME],
    );
    engine = await startFakePublisher({ endpoint: `tcp://${OURS}:*`, replay: `tcp://${OURS}:*` });
    client = connectKv({ address: { url: `http://${listen}` }, clock: REAL_CLOCK });
    mirror = createMirror({ clients: [client], clock: REAL_CLOCK, log: SILENT_LOG, capBytes: 2 ** 24 });
    await until("the copy", 30_000, () => (state() === "live" ? true : undefined), words);
    await client.register({
      id: workerId("w"),
      node: nodeId("n"),
      kind: "vllm",
      traits: {},
      url: `http://${OURS}:1`,
      models: ["m"],
      role: "both",
      blockTokens: BLOCK,
      kv: { type: "events", endpoint: engine.endpoint, replay: engine.replay, topic: "", dpRank: 0 },
      tokenizer: { bytes: true },
      state: "ready",
      reason: "",
      epoch: 1,
    });
  }, 60_000);

  afterAll(async () => {
    mirror?.close();
    client?.close();
    engine?.close();
    kvcached?.child.kill("SIGTERM");
    await kvcached?.exit;
    ip("netns", "del", NAME);
    place.dispose();
  }, 30_000);

  it("the copy goes on, says that it is old, and is whole again once the network is back", async () => {
    for (let block = 0; block < 4; block++) await engine.publish(stored(block));
    await until("four blocks", 10_000, () => (held() === 4 * BLOCK ? true : undefined), words);
    ip("link", "set", `${NAME}a`, "down");
    await until("the loss", 10_000, () => (state() === "lost" ? true : undefined), words);
    expect(held()).toBe(4 * BLOCK);
    expect(mirror.status()[0]).toMatchObject({ reason: expect.stringMatching(/no word from it/) });
    for (let block = 4; block < 8; block++) await engine.publish(stored(block));
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(held()).toBe(4 * BLOCK);
    ip("link", "set", `${NAME}a`, "up");
    const since = performance.now();
    await until("the copy again", 15_000, () => (state() === "live" ? true : undefined), words);
    const live = performance.now() - since;
    await until("eight blocks", 15_000, () => (held() === 8 * BLOCK ? true : undefined), words);
    console.log(
      `live again ${Math.round(live)} ms after the cut, whole ${Math.round(performance.now() - since)} ms after it`,
    );
    // Nothing was forgotten, so nothing had to be copied anew.
    expect(mirror.status()[0]).toMatchObject({ snapshots: 1, resumed: 1 });
    expect(mirror.sources()[0]).toMatchObject({ restarts: 0 });
  }, 60_000);
});
