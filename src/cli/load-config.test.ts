import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { loadOptions, loadWithVersions } from "./load-config.ts";

const CLI = { env: {}, cwd: "/nowhere" };

describe("loadOptions()", () => {
  it("loadOptions() reads --set at the first = outside quotes, and lets shortcuts win", () => {
    const set = ["router.policy=random", 'models."a=b".path=/x=y', "router.node_id="];
    const shortcuts = { "router.policy": { flag: "--policy", value: "ttft" } };
    const options = loadOptions({ config: "c.toml", set, kvOffload: "nixl" }, CLI, shortcuts);
    expect(options.path).toBe("c.toml");
    expect(options.overrides).toEqual({ "router.policy": "ttft", 'models."a=b".path': "/x=y", "router.node_id": "" });
    expect(options.pick).toEqual({ kvOffload: "nixl" });
    expect([options.flagOf?.("router.policy"), options.flagOf?.("router.node_id")]).toEqual([
      "--policy",
      "--set router.node_id",
    ]);
  });

  it("loadOptions() refuses a --set without =", () => {
    try {
      loadOptions({ set: ["router.policy"] }, CLI);
      expect.unreachable();
    } catch (e) {
      expect(isCgnError(e, "BAD_INVOCATION")).toBe(true);
      expect((e as Error).message).toBe(
        'Cannot read --set "router.policy": it has no "=". Write --set KEY=VALUE, for example --set router.policy=round_robin',
      );
    }
  });
});

// On a busy host the command was rendered for another version than the installed one, and nothing said so.
it("loadWithVersions() warns where a Python does not tell its version, once for each", async () => {
  const dir = mkdtempSync(join(tmpdir(), "cgn-load-"));
  try {
    const python = join(dir, "python3");
    for (const [file, text] of [
      [python, "#!/bin/sh\nexit 3\n"],
      [join(dir, "vllm"), `#!${python}\n`],
    ] as const) {
      writeFileSync(file, text);
      chmodSync(file, 0o755);
    }
    const engine = (port: number) => `[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:${port}"\nmodel = "m"\n`;
    const path = join(dir, "cgn.toml");
    writeFileSync(path, `[models.m]\n${engine(8000)}node_id = "a"\n${engine(8001)}node_id = "b"\n`);
    const loaded = async (options: Record<string, boolean>) => {
      const { settings } = await loadWithVersions({ path, env: {}, cwd: dir }, options, { env: { PATH: dir } });
      return settings.warnings.filter(({ path: key }) => key === "engine.kind").map(({ problem }) => problem);
    };
    expect(await loaded({})).toEqual([
      `${python} did not tell which vllm it has: the command is for the newest that cgn knows`,
    ]);
    expect(await loaded({ detect: false })).toEqual([]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
