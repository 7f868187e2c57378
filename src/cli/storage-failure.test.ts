import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { describeError } from "./main.ts";
import { userCacheDir } from "./places.ts";
import { storageFailure } from "./storage-failure.ts";

const failure = (code: string, syscall: string, path?: string): Error =>
  Object.assign(new Error(`${code}: words, ${syscall} '${path}'`), { code, syscall, path });

// On a read-only home "cgn demo" ended with a stack and "This is a bug in cgn".
it.each([
  ["EROFS", "mkdir", join(userCacheDir({}), "cgn", "demo-1"), "is read-only. Set XDG_CACHE_HOME"],
  ["EACCES", "mkdtemp", join(tmpdir(), "cgn-run-"), "has no right to it. Set TMPDIR"],
  ["ENOENT", "mkdtemp", join(tmpdir(), "cgn-run-"), "no folder can be made there. Set TMPDIR"],
  ["ENOSPC", "open", "/elsewhere/file", "the disk is full. Make room there"],
  ["ENOTDIR", "open", "/elsewhere/file", "is no folder. Give this user the right to it"],
])("storageFailure() tells %s of %s as what it is", (code, syscall, path, words) => {
  const told = storageFailure(failure(code, syscall, path), {});
  expect(told).toMatchObject({ code: "STORAGE_UNUSABLE", details: { file: path } });
  expect(told?.message).toContain(words);
});

it("storageFailure() leaves other failures alone", () => {
  expect(storageFailure(failure("ENOENT", "open", "/x"), {})).toBeUndefined();
  expect(storageFailure(failure("ECONNREFUSED", "connect"), {})).toBeUndefined();
  expect(storageFailure(new Error("x"), {})).toBeUndefined();
});

it("a real one ends with a sentence and the code of storage", () => {
  const dir = mkdtempSync(join(tmpdir(), "cgn-storage-"));
  writeFileSync(join(dir, "file"), "");
  try {
    mkdirSync(join(dir, "file", "below"), { recursive: true });
    expect.unreachable();
  } catch (e) {
    const { lines, exit } = describeError(e, {});
    expect(lines).toHaveLength(1);
    expect([lines[0]?.includes("a part of its path is no folder"), exit]).toEqual([true, 8]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

it.each([undefined, "", "relative/cache"])("userCacheDir() takes XDG_CACHE_HOME = %j for none", (value) => {
  expect(userCacheDir({ XDG_CACHE_HOME: value })).toBe(userCacheDir({}));
});
