import { afterEach, describe, expect, it } from "vitest";
import { ROLES } from "../../core/engine-kind.ts";
import { KV_OFFLOADS } from "../../core/kv-offload.ts";
import { findEngine } from "../../engines/registry.ts";
import { sampleInput } from "../../engines/sample-input.ts";
import { chat, closeAll, eventsFlag, freePort, post, replayFrom, sglang, vllm } from "../testing/sim-client.ts";
import { readSglangArgv } from "./sglang-argv.ts";
import type { SimServer } from "./sim-server.ts";
import { readVllmArgv } from "./vllm-argv.ts";

afterEach(closeAll);

const SIMULATED = [
  { kind: "vllm", start: vllm, read: readVllmArgv },
  { kind: "sglang", start: sglang, read: readSglangArgv },
] as const;

/** The answer of one path, as the engines' probes take it. */
async function ask(server: SimServer, path: string) {
  const res = await fetch(`${server.url}${path}`);
  return { status: res.status, body: await res.text() };
}

describe.each(SIMULATED)("cgn's own view of a simulated $kind", ({ kind, start, read }) => {
  const engine = findEngine(kind);
  const options = engine.schema.parse({});

  it("takes the command line of every supported cell", () => {
    let cells = 0;
    for (const offload of KV_OFFLOADS) {
      for (const role of ROLES) {
        if (!engine.cell(offload, role).supported) continue;
        const argv = engine.launch(sampleInput(options, { offload, role })).argv;
        const told = read(argv.slice(1), {});
        expect(told.reportsCachedTokens, `${offload}/${role}`).toBe(true);
        cells++;
      }
    }
    expect(cells).toBeGreaterThan(3);
  });

  it("says what its launch announced: block size and where events are", () => {
    const input = sampleInput(options);
    const told = read(engine.launch(input).argv.slice(1), {});
    const announced = engine.announce(input);
    expect(told.limits.blockTokens).toBe(announced.blockTokens);
    if (announced.kv.type !== "events") throw new Error("events expected");
    expect(told.events?.endpoint.split(":").at(-1)).toBe(announced.kv.endpoint.split(":").at(-1));
    expect(told.events?.replay?.split(":").at(-1)).toBe(announced.kv.replay?.split(":").at(-1));
    expect(told.events?.topic).toBe(announced.kv.topic);
  });

  it("is understood by the probe: ready, models, block size, events, load, version", async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await start(eventsFlag(port, replay));
    const { probe } = engine;
    expect(probe.ready.verdict(await ask(server, probe.ready.path))).toBe("ready");
    const models = probe.models!.parse((await ask(server, probe.models!.path)).body);
    expect(models[0]).toMatchObject({ id: server.engine.options.models[0], maxModelTokens: 32_768 });
    expect(probe.blockTokens!.parse((await ask(server, probe.blockTokens!.path)).body)).toBe(16);
    expect(probe.version!.parse((await ask(server, probe.version!.path)).body)).toBe(server.engine.options.version);
    const load = probe.metrics!.parse((await ask(server, probe.metrics!.path)).body);
    expect(load).toMatchObject({ running: 0, waiting: 0, kvUsage: 0 });
    const [source] = probe.kvSources!.parse((await ask(server, probe.kvSources!.path)).body, "127.0.0.1");
    expect(source).toEqual({
      type: "events",
      endpoint: `tcp://127.0.0.1:${port}`,
      replay: `tcp://127.0.0.1:${replay}`,
      topic: "kv@test",
      dpRank: 0,
    });
  });

  it.each(["map", "array"] as const)("has its events decoded, as %s", async (shape) => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await start([...eventsFlag(port, replay), "--sim-events", shape]);
    const salted = chat("hello there, how are you?", { cache_salt: "tenant-a" });
    const { json } = await post(server, "/v1/chat/completions", salted);
    const frames = (await replayFrom(replay, 0n)).slice(0, -1);
    const events = frames.flatMap((f) => [...engine.decodeEvents!(Buffer.from(f[3]!, "base64")).events]);
    const stored = events.filter((e) => e.type === "stored");
    const tokens = stored.flatMap((e) => [...e.tokenIds]);
    // All but the last generated token, in whole blocks.
    expect(tokens).toHaveLength(Math.floor((json.usage.total_tokens - 1) / 16) * 16);
    expect(Buffer.from(tokens).toString()).toMatch(/^<\|im_start\|>user\nhello there, how are you\?/);
    expect(stored[0]).toMatchObject({ parent: undefined, blockTokens: 16, tier: "device", lora: "" });
    if (shape === "map") expect(stored[0]?.extra).toContain("tenant-a");
    expect(stored[1]?.parent).toBe(stored[0]?.names.at(-1));
  });
});
