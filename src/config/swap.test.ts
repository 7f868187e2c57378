import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { GIB } from "../core/units.ts";
import { type LoadedConfig, loadConfig } from "./load.ts";
import { SAMPLE_HOST } from "./sample-host.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-swap-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function load(toml: string): LoadedConfig {
  const path = join(dir, "c.toml");
  writeFileSync(path, toml);
  return loadConfig({ path, env: {}, cwd: dir, host: SAMPLE_HOST });
}
const problems = (toml: string): string[] =>
  load(toml).problems.map(({ severity, path, problem }) => `${severity} ${path}: ${problem}`);
const engine = (model: string, more = ""): string => `[[engines]]\nkind = "llama_cpp"\nmodel = "${model}"\n${more}\n`;

describe("[swap] of loadSettings()", () => {
  it("loads no engine on demand unless somebody asks for it", () => {
    const { settings } = load(engine("a") + engine("b"));
    expect(settings.engines.map((each) => each.onDemand)).toEqual([undefined, undefined]);
    expect(settings.swap).toEqual({ minResidencyMs: 5_000 });
    expect(settings.router.loadWait).toEqual({ timeoutMs: 300_000, keepAliveMs: 5_000 });
  });

  it("takes ttl, preload = false, a group, a counted engine and GPUs that are shared with [swap] as asking", () => {
    const toml = `[swap]
memory_gib = 24
[swap.groups.g]
members = ["d"]
[swap.groups.h]
swap = false
`;
    const { settings, problems: found } = load(
      toml +
        engine("a", 'ttl = "5m"') +
        engine("b", "preload = false") +
        engine("c", "memory_gib = 4") +
        engine("d") +
        engine("e", 'group = "h"') +
        engine("f", "gpus = [3]") +
        engine("g", "gpus = [3]") +
        engine("z"),
    );
    expect(found).toEqual([]);
    const places = settings.engines.map(({ model, onDemand }) => [model.name, onDemand]);
    expect(Object.fromEntries(places)).toMatchObject({
      a: { gpus: [], memoryBytes: 0 },
      b: { gpus: [] },
      c: { memoryBytes: 4 * GIB },
      d: { group: { name: "g", swap: true, exclusive: true, persistent: false } },
      e: { group: { name: "h", swap: false, exclusive: true, persistent: false } },
      f: { gpus: [3] },
      g: { gpus: [3] },
      z: undefined,
    });
  });

  it("preloads in the list's order, then what says preload = true", () => {
    const toml = '[swap]\npreload = ["b", "a"]\n';
    const { settings } = load(
      toml +
        ["a", "b", "c", "d"].map((m) => engine(m, 'ttl = "1m"')).join("") +
        engine("e", 'ttl = "1m"\npreload = true'),
    );
    expect(settings.engines.map((each) => each.onDemand?.preload)).toEqual([1, 0, undefined, undefined, 2]);
  });

  it("tells names that nobody loads, two groups for one engine, and what can never be loaded", () => {
    expect(problems(`[swap]\npreload = ["alpha"]\n[swap.groups.g]\nmembers = ["alpa"]\n${engine("alpha")}`)).toEqual([
      'error swap.groups.g.members: no engine of this file loads "alpa"',
    ]);
    const two = `[swap.groups.g]\nmembers = ["a"]\n[swap.groups.h]\nmembers = ["a"]\n${engine("a")}`;
    expect(problems(two)).toEqual([
      'error swap.groups.h: the engine of "a" is in group "g" already (swap.groups.g (line 1))',
    ]);
    const large = `[swap]\nmemory_gib = 8\n${engine("a", "memory_gib = 9")}`;
    expect(problems(large)).toEqual([
      "error engines[0].memory_gib: the engine takes 9 GiB, and [swap].memory_gib is 8: it could never be loaded",
    ]);
  });

  it("warns of a budget that counts nothing, of preloads that take turns, and of ttl where it does nothing", () => {
    expect(problems(`[swap]\nmemory_gib = 8\n${engine("a")}`)).toEqual([
      "warning swap.memory_gib: no engine says what it takes, so the budget limits nothing",
    ]);
    const both = `[swap]\npreload = ["a", "b"]\n[swap.groups.g]\nmembers = ["a", "b"]\n`;
    expect(problems(both + engine("a") + engine("b"))).toEqual([
      'warning swap.preload: "a" and "b" are both loaded at the start and take turns: the second one unloads the first',
    ]);
    const adopted = `${engine("a", 'spawn = false\nttl = "1m"')}`;
    expect(problems(adopted)).toEqual([
      'warning engines[0].ttl: the engine of "a" is started by somebody else, so it is not loaded on demand',
    ]);
  });
});
