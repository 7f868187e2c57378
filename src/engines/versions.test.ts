import { describe, expect, it } from "vitest";
import type { CgnError } from "../core/errors.ts";
import { inRange } from "../core/version.ts";
import { lowestOf, renderedFor, versionPart } from "./engine-versions.ts";
import { ENGINES, findEngine } from "./registry.ts";
import { SAMPLE_MODEL, SAMPLE_SLOT, sampleInput } from "./sample-input.ts";

function launch(kind: "vllm" | "sglang", engineVersion: string | undefined, section: object = {}, over: object = {}) {
  const engine = findEngine(kind);
  const slot = { ...SAMPLE_SLOT, ...(engineVersion === undefined ? {} : { engineVersion }) };
  return engine.launch(sampleInput(engine.schema.parse(section), { slot, ...over }));
}

function problems(run: () => unknown): string[] {
  try {
    run();
    return [];
  } catch (e) {
    return (e as CgnError<"CONFIG_INVALID">).details.problems.map(({ problem }) => problem);
  }
}

const warnings = (plan: { warnings: readonly { code: string }[] }): string[] => plan.warnings.map(({ code }) => code);
const withExtra = (...extraArgs: string[]) => ({ model: { ...SAMPLE_MODEL, extraArgs } });

describe("versions of engines", () => {
  it.each(ENGINES.filter(({ versions }) => versions !== undefined))(
    "$kind's newest is in its range",
    ({ versions }) => {
      expect(inRange(versions!.newest, versions!.range)).toBe(true);
      expect(lowestOf(versions!)).toMatch(/^>=/);
    },
  );

  it("renderedFor() takes what is there, the newest where nothing is known, and the nearest outside", () => {
    const versions = findEngine("vllm").versions!;
    expect(renderedFor("0.30.1+cu130", versions)).toEqual({ version: "0.30.1+cu130", how: "known" });
    expect(renderedFor(undefined, versions)).toEqual({ version: versions.newest, how: "assumed" });
    expect(renderedFor("dev", versions)).toEqual({ version: versions.newest, how: "assumed" });
    expect(renderedFor("0.40", versions)).toEqual({ version: versions.newest, how: "outside" });
    expect(renderedFor("0.17.1", versions)).toEqual({ version: "0.17.1", how: "outside" });
  });

  it("versionPart() warns outside the range only, and says the version in the reasons", () => {
    const versions = findEngine("vllm").versions!;
    const said = (found?: string) => versionPart("vLLM", found, versions);
    expect([said("0.32.0"), said()].map((part) => part.warnings)).toEqual([[], []]);
    expect(said("0.40").warnings).toMatchObject([{ code: "engine-version" }]);
    expect(said("0.40").warnings[0]?.message).toContain("0.40 is not among");
    expect(said().reasons[0]?.why).toContain("0.33.0, the newest that is known");
  });
});

describe("vllm by version", () => {
  it("renders --shutdown-timeout from 0.18 on", () => {
    expect(launch("vllm", "0.17.1").argv).not.toContain("--shutdown-timeout");
    for (const version of ["0.18.0", "0.24.0", "0.33.0", undefined])
      expect(launch("vllm", version).argv).toContain("--shutdown-timeout");
  });

  it("takes kv_rank in a written --kv-transfer-config before 0.32", () => {
    const written = '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_rank":0}';
    const over = withExtra("--kv-transfer-config", written);
    expect(problems(() => launch("vllm", "0.31.0", {}, over))).toEqual([]);
    for (const version of ["0.32.0", undefined])
      expect(problems(() => launch("vllm", version, {}, over))[0]).toContain("kv_rank is no key");
  });

  it("warns of --disable-log-requests but for 0.33, which takes it", () => {
    const over = withExtra("--disable-log-requests");
    expect(warnings(launch("vllm", "0.33.0", {}, over))).not.toContain("flag-refused");
    for (const version of ["0.24.0", "0.32.0", undefined])
      expect(warnings(launch("vllm", version, {}, over))).toContain("flag-refused");
  });

  it("warns of LMCache with 0.26", () => {
    const lmcache = { offload: "lmcache" };
    expect(warnings(launch("vllm", "0.26.0", {}, lmcache))).toContain("lmcache-wrong-text");
    expect(warnings(launch("vllm", "0.32.0", {}, lmcache))).not.toContain("lmcache-wrong-text");
  });
});

describe("sglang by version", () => {
  const hicache = (section: object) => ({ hicache: section });

  it.each([
    ["simm", "0.5.10", "0.5.11"],
    ["mori", "0.5.14", "0.5.15"],
    ["shm", "0.5.16", "0.5.17"],
    ["sim", "0.5.18", "0.5.19"],
    ["npu_memcache", "0.5.19", "0.5.20"],
    ["tensorcast", "0.5.20", "0.5.21"],
    ["seaweedfs", "0.5.21", "0.5.22"],
  ])("takes storage %s from %s's next release on", (storage, before, since) => {
    const launched = (version: string) =>
      problems(() => launch("sglang", version, hicache({ storage }), { offload: "hicache" }));
    expect(launched(before)[0]).toContain(`--hicache-storage-backend ${storage} is no choice of SGLang ${before}`);
    expect(launched(since)).toEqual([]);
  });

  it("refuses decode_radix before 0.5.11", () => {
    const over = { offload: "hicache", role: "decode" };
    const radix = hicache({ decode_radix: true });
    expect(problems(() => launch("sglang", "0.5.10.post1", radix, over))[0]).toContain(
      "has no flag --disaggregation-decode-enable-radix-cache",
    );
    expect(problems(() => launch("sglang", "0.5.11", radix, over))).toEqual([]);
  });

  it.each([
    ["--hicache-host-memory-mode", ["--hicache-host-memory-mode", "cache"], "0.5.18", "0.5.19"],
    ["--disaggregation-transfer-backend", ["--disaggregation-transfer-backend", "mooncake_tcp"], "0.5.12", "0.5.13"],
    [
      "bind",
      ["--kv-events-config", '{"publisher":"zmq","endpoint":"tcp://127.0.0.1:1","bind":true}'],
      "0.5.21",
      "0.5.22",
    ],
  ])("refuses %s before the version that has it", (name, words, before, since) => {
    const over = { ...withExtra(...words), role: "prefill", offload: "nixl" };
    expect(problems(() => launch("sglang", before, {}, over)).join()).toContain(name);
    expect(problems(() => launch("sglang", since, {}, over))).toEqual([]);
  });
});
