import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { leastNode } from "./package-version.ts";
import { LEAST_NODE, nodeProblem } from "./require-node.ts";

const BIN = fileURLToPath(new URL("./bin/", import.meta.url));

it("LEAST_NODE is what package.json says", () => expect(LEAST_NODE).toBe(leastNode()));

it.each(["22.18.0", "22.19.1", "24.0.0", "100.1.0"])("nodeProblem() takes %s", (version) => {
  expect(nodeProblem(version)).toBeUndefined();
});

it.each(["22.17.9", "20.20.2", "18.0.0", ""])("nodeProblem() refuses %j", (version) => {
  expect(nodeProblem(version)).toContain("cgn needs 22.18 or newer");
});

// On Node 20 an installed cgn said "The requested module 'node:tls' does not provide an export named 'getCACertificates'".
it.each(readdirSync(BIN))("%s looks at Node before it loads anything that an old one could not", (name) => {
  const imported = [...readFileSync(join(BIN, name), "utf8").matchAll(/^import .* from "(.*)";/gm)].map((m) => m[1]);
  expect(imported.filter((each) => each !== "../require-node.ts" && each !== "../bound-heap.ts")).toEqual([]);
  const old = "Object.defineProperty(process.versions, 'node', { value: '20.20.2' })";
  const args = ["--import", `data:text/javascript,${encodeURIComponent(old)}`, join(BIN, name), "--version"];
  const done = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
  expect([done.status, done.stderr.trim()]).toEqual([9, `cgn: ${nodeProblem("20.20.2")}`]);
});
