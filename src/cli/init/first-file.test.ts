import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { ENGINES, findEngine } from "../../engines/registry.ts";
import { acceptedOffloads } from "../../engines/table.ts";
import { type Choices, gpusFor, OFFLOAD_REASONS, proposedOffload } from "./choices.ts";
import { firstFile } from "./first-file.ts";
import { layoutOf } from "./look.ts";

const GIB = 1024 ** 3;
let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-first-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

const CHOICES: Choices = {
  engine: findEngine("vllm"),
  options: {},
  name: "m",
  target: "org/m",
  enginePort: 8000,
  gpus: [],
  hasGpus: false,
  offload: "none",
  port: 8080,
  adminPort: 9091,
};

function load(choices: Choices) {
  const path = join(dir, "cgn.toml");
  writeFileSync(path, firstFile(choices));
  return loadConfig({ path, env: {}, cwd: dir });
}

describe("firstFile()", () => {
  const started = ENGINES.filter(({ spawns }) => spawns).flatMap((engine) =>
    acceptedOffloads(engine, "both").flatMap((offload) =>
      (engine.installs ?? [{}]).map((options) => ({ engine, offload, options, kind: engine.kind })),
    ),
  );

  it.each(started)("loads without a problem for $kind with $offload", ({ engine, offload, options }) => {
    const target = layoutOf(engine) === "gguf" ? "/m/m.gguf" : "org/m";
    for (const gpus of [[], [0, 1]]) {
      const given = { ...CHOICES, engine, offload, gpus, target, hasGpus: true };
      const { settings, problems } = load({ ...given, options: { ...options, ...engine.onGpu } });
      expect(problems).toEqual([]);
      expect(settings.engines).toMatchObject([{ kind: engine.kind, kvOffload: offload, spawn: true }]);
      expect(settings.engines[0]!.model).toMatchObject({ name: "m", tp: gpus.length || 1 });
      expect([settings.engines[0]!.model.path, settings.engines[0]!.model.hfRepo]).toContain(target);
      expect(settings.router.listenHttp).toEqual({ host: "127.0.0.1", port: 8080 });
    }
  });

  it.each(ENGINES)("adopts a $kind that runs", (engine) => {
    const { target: _, enginePort: __, ...rest } = CHOICES;
    const { settings, problems } = load({ ...rest, engine, url: "http://127.0.0.1:9000" });
    expect(problems).toEqual([]);
    expect(settings.engines).toMatchObject([{ url: "http://127.0.0.1:9000", spawn: false, kind: engine.kind }]);
  });

  it("keeps every name and path as it is", () => {
    const word = fc.string({ unit: "binary", minLength: 1, maxLength: 30 }).filter((text) => text.isWellFormed());
    fc.assert(
      fc.property(word, word, (name, file) => {
        const { settings } = load({ ...CHOICES, name, target: `/m/${file}` });
        expect(settings.engines[0]!.model).toMatchObject({ name, path: `/m/${file}` });
      }),
      { numRuns: 60 },
    );
  });

  it("says in plain words why the dial stands where it stands", () => {
    for (const { offload } of started) {
      expect(firstFile({ ...CHOICES, offload })).toContain(`# Where the KV cache goes: ${OFFLOAD_REASONS[offload]}.`);
    }
  });
});

describe("proposedOffload()", () => {
  it.each([
    ["without a GPU", ["none", "lmcache"], false, 512, "none"],
    ["with little memory", ["none", "lmcache"], true, 32, "none"],
    ["with LMCache installed", ["none", "nixl", "lmcache"], true, 128, "lmcache"],
    ["where only SGLang's own is there", ["none", "hicache"], true, 128, "hicache"],
    ["with nothing that keeps", ["none", "nixl"], true, 128, "none"],
  ] as const)("%s", (_, installed, hasGpus, gib, expected) => {
    expect(proposedOffload(installed, { hasGpus, memoryBytes: gib * GIB })).toBe(expected);
  });
});

describe("gpusFor()", () => {
  it.each([
    [16, [80, 80, 80, 80], 1],
    [70, [80, 80, 80, 80], 2],
    [140, [80, 80, 80, 80], 4],
    [900, [80, 80, 80], 2],
    [undefined, [80], 1],
    [10, [], 0],
  ])("gives %s GiB of weights of GPUs %j: %i", (gib, gpus, expected) => {
    expect(
      gpusFor(
        gib === undefined ? undefined : gib * GIB,
        gpus.map((each) => each * GIB),
      ),
    ).toBe(expected);
  });
});
