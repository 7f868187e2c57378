import { afterEach, describe, expect, it } from "vitest";
import { chat, closeAll, post, sglang, vllm } from "../testing/sim-client.ts";
import { readSglangArgv } from "./sglang-argv.ts";
import type { SimServer } from "./sim-server.ts";
import { readVllmArgv } from "./vllm-argv.ts";

afterEach(closeAll);

const connector = (name: string, extra?: object) => [
  "--kv-transfer-config",
  JSON.stringify({ kv_connector: name, kv_role: "kv_both", ...(extra && { kv_connector_extra_config: extra }) }),
];
const vllmTiers = (argv: readonly string[], env: Record<string, string> = {}) =>
  readVllmArgv(["serve", "m", "--block-size", "16", ...argv], env).limits.tiers ?? [];
const sglangTiers = (argv: readonly string[]) =>
  readSglangArgv(["--model-path", "m", "--page-size", "16", ...argv], {}).limits.tiers ?? [];
/** Blocks of 16 tokens of 128 KiB. */
const gib = (count: number) => count * 512;

describe("offload on the command line", () => {
  it("readVllmArgv() takes each connector's sizes from where the real one does", () => {
    const lmcache = connector("LMCacheConnectorV1");
    expect(vllmTiers([])).toEqual([]);
    expect(vllmTiers(lmcache)).toMatchObject([{ name: "host", blocks: gib(5), write: "through", blocksStep: true }]);
    const disk = { LMCACHE_LOCAL_DISK: "file:///d", LMCACHE_MAX_LOCAL_DISK_SIZE: "100" };
    expect(vllmTiers(lmcache, { LMCACHE_MAX_LOCAL_CPU_SIZE: "64", ...disk })).toMatchObject([
      { name: "host", blocks: gib(64) },
      { name: "disk", blocks: gib(100) },
    ]);
    const kvbm = { connectors: [{ kv_connector: "DynamoConnector" }, { kv_connector: "NixlConnector" }] };
    const sizes = { DYN_KVBM_CPU_CACHE_GB: "8", DYN_KVBM_DISK_CACHE_GB: "16" };
    expect(vllmTiers(connector("PdConnector", kvbm), sizes).map((t) => [t.name, t.blocks, t.blocksStep])).toEqual([
      ["host", gib(8), undefined],
      ["disk", gib(16), undefined],
    ]);
    expect(vllmTiers(["--kv-offloading-size", "2", "--kv-offloading-backend", "native"])).toMatchObject([
      { blocks: gib(2) },
    ]);
    expect(vllmTiers([...lmcache, "--sim-host-gib", "1"])).toMatchObject([{ blocks: gib(1) }]);
    expect(vllmTiers(connector("NixlConnector"))).toEqual([]);
  });

  it("readSglangArgv() reckons HiCache's host pool from size or ratio, and has its write policies", () => {
    const hicache = ["--enable-hierarchical-cache"];
    expect(sglangTiers(hicache)).toMatchObject([{ name: "host", blocks: 2 * 8192, write: "through" }]);
    const sized = [...hicache, "--hicache-size", "4", "--hicache-write-policy", "write_back"];
    const [host, disk] = sglangTiers([...sized, "--hicache-storage-backend", "file"]);
    expect(host).toMatchObject({ name: "host", blocks: Math.floor(4e9 / (16 * 131_072)), write: "evicted" });
    expect(disk).toMatchObject({ name: "disk" });
    expect(sglangTiers([...sized, "--hicache-storage-backend", "nixl"])[1]).toMatchObject({ name: "shared" });
  });

  it("sizes without an offload are refused, and reads go as fast as all else", () => {
    expect(() => vllmTiers(["--sim-host-gib", "4"])).toThrow("keeps blocks on its device only");
    const [slow, fast] = ["1", "10"].map(
      (speed) => vllmTiers([...connector("LMCacheConnectorV1"), "--sim-speed", speed])[0]!,
    );
    expect(fast!.gbPerS).toBeCloseTo(10 * slow!.gbPerS);
    expect(fast!.latencyMs).toBeCloseTo(slow!.latencyMs / 10);
  });
});

describe("offload on the wire", () => {
  const prompts = ["a", "b", "c"].map((letter) => letter.repeat(600));
  const cachedOf = async (server: SimServer, content: string): Promise<number> => {
    const { json } = await post(server, "/v1/chat/completions", chat(content, { max_tokens: 1 }));
    return json.usage.prompt_tokens_details.cached_tokens;
  };

  it.each([
    ["vllm", vllm, connector("LMCacheConnectorV1")],
    ["sglang", sglang, ["--enable-hierarchical-cache", "--hicache-size", "1"]],
  ] as const)("a %s finds in host memory what its device lost", async (_, start, offload) => {
    const small = ["--sim-blocks", "60"];
    const [without, withHost] = [await start(small), await start([...small, ...offload])];
    // The template's own beginning is all that they share.
    for (const server of [without, withHost])
      for (const prompt of prompts) expect(await cachedOf(server, prompt)).toBeLessThan(64);
    expect(await cachedOf(without, prompts[0]!)).toBeLessThan(64);
    expect(await cachedOf(withHost, prompts[0]!)).toBeGreaterThanOrEqual(592);
  });

  it("vLLM's metrics tell what the connector had", async () => {
    const server = await vllm(["--sim-blocks", "60", ...connector("LMCacheConnectorV1")]);
    for (const prompt of [...prompts, prompts[0]!]) await cachedOf(server, prompt);
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    const of = (name: string) => Number(new RegExp(`^vllm:${name}\\{.*\\} (\\d+)`, "m").exec(metrics)?.[1]);
    expect(of("external_prefix_cache_hits_total")).toBeGreaterThanOrEqual(592);
    expect(of("external_prefix_cache_queries_total")).toBeGreaterThan(3 * 600);
    expect(of("prefix_cache_hits_total")).toBeLessThan(4 * 64);
  });
});
