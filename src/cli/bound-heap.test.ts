import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";

const MODULE = new URL("./bound-heap.ts", import.meta.url).href;

/** Make so much garbage of which some survives, after `boundHeapOf()` in a process of its own, and tell the size of the young generation in MB. */
function youngAfter(args: readonly string[], nodeArgs: readonly string[] = []): number {
  const code = `
    import { getHeapSpaceStatistics } from "node:v8";
    import { boundHeapOf } from ${JSON.stringify(MODULE)};
    boundHeapOf(${JSON.stringify(args)});
    let kept = [];
    for (let round = 0; round < 200; round++) {
      for (let i = 0; i < 20_000; i++) kept.push({ round, i, text: "x" + i });
      if (kept.length > 100_000) kept = [];
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { space_size } = getHeapSpaceStatistics().find((space) => space.space_name === "new_space");
    process.stdout.write(String(space_size / 2 ** 20));
  `;
  const run = spawnSync(process.execPath, [...nodeArgs, "--input-type=module", "-e", code], { encoding: "utf8" });
  expect(run.stderr).toBe("");
  return Number(run.stdout);
}

describe("the heap of a server", () => {
  it("has a young generation that grows to its bound and no further", { timeout: 60_000 }, () => {
    expect(youngAfter(["router", "--listen", "127.0.0.1:0"])).toBe(16);
  });

  it("is left to V8 in commands that end", { timeout: 60_000 }, () => {
    expect(youngAfter(["table"])).toBeGreaterThan(16);
  });

  it("is as it was asked for", { timeout: 60_000 }, () => {
    expect(youngAfter(["router"], ["--max-semi-space-size=16"])).toBe(32);
  });
});
