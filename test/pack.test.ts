import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

// What `npm pack` makes, its files and a run of them beside this tree's packages. The long form, which installs it, is npm run test:pack.
const ROOT = join(import.meta.dirname, "..");

describe("npm pack", () => {
  it("has what runs and nothing else, under 5 MB, and its demo with simulated engines works", async () => {
    const args = [join(ROOT, "scripts", "test-pack.mjs"), "--short"];
    const { code, stdout, stderr } = await new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, args, { cwd: ROOT }, (error, out, err) =>
        resolve({ code: error?.code ?? 0, stdout: out, stderr: err }),
      );
    });
    expect(code, stderr).toBe(0);
    const told = JSON.parse(stdout) as {
      readonly files: number;
      readonly unpackedBytes: number;
      readonly demo: number;
    };
    expect(told.files).toBeGreaterThan(500);
    expect(told.unpackedBytes).toBeLessThan(5_000_000);
    expect(told.demo).toBeGreaterThan(5);
  }, 400_000);
});
