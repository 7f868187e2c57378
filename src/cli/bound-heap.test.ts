import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";

const MODULE = new URL("./bound-heap.ts", import.meta.url).href;

/** After `boundHeapOf()`, in a process of its own: make garbage of which some survives, and tell the size that the young generation comes to, in MB. */
function youngAfter(args: readonly string[], least: number, nodeArgs: readonly string[] = []): number {
  const code = `
    import { getHeapSpaceStatistics } from "node:v8";
    import { boundHeapOf } from ${JSON.stringify(MODULE)};
    boundHeapOf(${JSON.stringify(args)});
    const young = () => getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size / 2 ** 20;
    let kept = [];
    // Before two seconds are over nobody asks how busy it was.
    for (let round = 0; round < 400 && (young() < ${least} || performance.now() < 1_500); round++) {
      for (let i = 0; i < 20_000; i++) kept.push({ round, i, text: "x" + i });
      if (kept.length > 100_000) kept = [];
      await new Promise((resolve) => setImmediate(resolve));
    }
    process.stdout.write(String(young()));
  `;
  const run = spawnSync(process.execPath, [...nodeArgs, "--input-type=module", "-e", code], { encoding: "utf8" });
  expect(run.stderr).toBe("");
  return Number(run.stdout);
}

describe("the heap of a server", () => {
  it("has a young generation that grows to its bound and no further", { timeout: 60_000 }, () => {
    expect(youngAfter(["router", "--listen", "127.0.0.1:0"], 12)).toBeLessThan(32);
  });

  it("is left to V8 in commands that end", { timeout: 60_000 }, () => {
    expect(youngAfter(["table"], 32)).toBeGreaterThanOrEqual(32);
  });

  it("is as it was asked for", { timeout: 60_000 }, () => {
    expect(youngAfter(["router"], 32, ["--max-semi-space-size=16"])).toBe(32);
  });
});
