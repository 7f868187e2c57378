import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../src/process/testing/few-files.ts", import.meta.url));

it("a supervisor without file descriptors left keeps its engine, and starts it again once there are some", async () => {
  // Broke: "spawn /bin/sh EMFILE" was told as a bug, and looks that could not be made counted against a healthy engine.
  const child = spawn("/bin/sh", ["-c", 'ulimit -n 64; exec "$@"', "sh", process.execPath, SCRIPT], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stdout.on("data", (part: Buffer) => (said += part.toString()));
  child.stderr.on("data", (part: Buffer) => (said += part.toString()));
  const [code] = (await once(child, "close")) as [number];
  expect(said).toContain("running ready\n");
  expect(said).toMatch(
    /short backoff: Cannot start n\/e0: no file descriptors left for its process \(.*EMFILE.*\)\. Raise/,
  );
  expect(said).toContain("ready again");
  expect(code).toBe(0);
}, 30_000);
