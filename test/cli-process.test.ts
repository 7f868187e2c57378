import { spawnSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { scratch } from "./helpers/cgn-process.ts";

const STARTER = join(import.meta.dirname, "..", "cgn");

describe("./cgn", () => {
  // A link to the starter looked for the package beside the link.
  it("runs through symbolic links, from any folder", () => {
    const place = scratch();
    symlinkSync(STARTER, join(place.dir, "one"));
    symlinkSync("one", join(place.dir, "two"));
    const { status, stdout } = spawnSync("./two", ["--version"], { cwd: place.dir, encoding: "utf8" });
    expect([status, stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/)]);
    place.dispose();
  });

  // A full disk under the output counted as success.
  it.skipIf(!existsSync("/dev/full"))("fails when its output cannot be written, and not when its reader leaves", () => {
    const full = spawnSync("sh", ["-c", `"${STARTER}" table >/dev/full`], { encoding: "utf8" });
    expect([full.status, full.stderr]).toEqual([1, expect.stringContaining("Cannot write the output")]);
    const left = spawnSync("bash", ["-c", `set -o pipefail; "${STARTER}" table | head -1`], { encoding: "utf8" });
    expect([left.status, left.stderr]).toEqual([0, ""]);
  });
});
