import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import { hashApiKey } from "./api-key.ts";
import { followKeyFile, readKeyFile } from "./key-file.ts";
import { handClock } from "./testing/hand-clock.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-keys-"));
afterAll(() => rmSync(dir, { recursive: true }));

describe("followKeyFile()", () => {
  it("takes over a changed file, and keeps the keys of before when it is bad or gone", async () => {
    const path = join(dir, "keys");
    writeFileSync(path, `${hashApiKey("1")} name=one\n`);
    const clock = handClock();
    const seen: string[][] = [];
    const file = followKeyFile(path, { clock, log: SILENT_LOG }, (entries) => seen.push(entries.map((e) => e.name)));
    const look = async (done: () => void): Promise<void> => {
      clock.advance(2_000);
      await vi.waitFor(done, { timeout: 15_000 });
    };
    writeFileSync(join(dir, "next"), `${hashApiKey("1")} name=one\n${hashApiKey("2")} name=two\n`);
    renameSync(join(dir, "next"), path);
    await look(() => expect(seen).toEqual([["one", "two"]]));
    writeFileSync(path, "a slip of a line\n");
    await look(() => expect(file.status().problem).toMatch(/line 1/));
    expect(file.entries).toHaveLength(2);
    rmSync(path);
    await look(() => expect(file.status().problem).toMatch(/ENOENT/));
    expect(file.status().keys).toBe(2);
    writeFileSync(path, "");
    await look(() => expect(seen.at(-1)).toEqual([]));
    expect(file.status().problem).toBeUndefined();
    file.close();
  });
});

describe("readKeyFile()", () => {
  it("names every bad line", () => {
    const path = join(dir, "bad");
    writeFileSync(path, `x\n${hashApiKey("1")}\ny\n`);
    expect(() => readKeyFile(path)).toThrow(/line 1: .*\(and 1 more\)/);
    expect(() => readKeyFile(join(dir, "none"))).toThrow(/ENOENT.*cgn key new/);
  });
});
