import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GENERATED } from "./generated-docs.ts";
import { PACKAGE_ROOT } from "./places.ts";

/** `npm run docs`: writes every generated file. With `--check` it only says which are stale, and ends with 1. */
const check = process.argv.includes("--check");
let stale = 0;
for (const { path, content } of GENERATED) {
  const file = join(PACKAGE_ROOT, path);
  const wanted = await content();
  let found = "";
  try {
    found = readFileSync(file, "utf8");
  } catch {
    // Not there yet: stale.
  }
  if (found === wanted) continue;
  stale++;
  if (!check) writeFileSync(file, wanted);
  console.error(`${check ? "stale" : "written"}: ${path}`);
}
if (check && stale > 0) {
  console.error("Run npm run docs");
  process.exitCode = 1;
}
