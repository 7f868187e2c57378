import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CODES, isCgnError } from "../core/errors.ts";
import { loadSettings } from "./load.ts";
import { requireFolders } from "./usable-folders.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-folders-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** The settings' written folders, from TOML text and variables. */
function written(toml: string, env: Record<string, string> = {}) {
  const path = join(dir, "cgn.toml");
  writeFileSync(path, toml);
  return loadSettings({ path, env: { XDG_STATE_HOME: dir, ...env }, cwd: dir }).folders ?? [];
}

function refusal(toml: string, env: Record<string, string> = {}): string {
  const folders = written(toml, env);
  try {
    requireFolders(
      folders,
      folders.map(({ key }) => key),
    );
  } catch (error) {
    if (!isCgnError(error, "STORAGE_UNUSABLE")) throw error;
    expect(CODES[error.code].exit).toBe(8);
    return error.message;
  }
  return "";
}

describe("requireFolders()", () => {
  // Broke: a state_dir below a regular file was no error; engines started and nothing was said.
  it.each([
    ["agent.state_dir", "[agent]\nstate_dir"],
    ["agent.log_dir", "[agent]\nlog_dir"],
    ["cluster.data_dir", "[cluster]\ndata_dir"],
    ["kv.index_dir", "[kv]\nindex_dir"],
    ["kv.uds", "[kv]\nuds"],
    ["agent.kv_uds", "[agent]\nkv_uds"],
  ])("refuses %s below a file, with key, place, path and reason", (key, line) => {
    writeFileSync(join(dir, "file"), "");
    const message = refusal(`${line} = "${dir}/file/x"\n`);
    expect(message).toContain(`Cannot use ${key} = "${dir}/file/x" at ${dir}/cgn.toml:2:`);
    expect(message).toMatch(/ENOTDIR|EEXIST|no folder/);
  });

  it("refuses a file in place of a folder, and one in place of a socket, which stays", () => {
    writeFileSync(join(dir, "file"), "mine");
    expect(refusal(`[agent]\nlog_dir = "${dir}/file"\n`)).toContain("it is no folder");
    expect(refusal(`[kv]\nuds = "${dir}/file"\n`)).toContain("something that is no socket is there");
    expect(statSync(join(dir, "file")).size).toBe(4);
    expect(refusal(`[kv]\nuds = "${dir}/${"s".repeat(120)}"\n`)).toContain("a socket's path at most");
  });

  it("names the variable that a folder came from", () => {
    writeFileSync(join(dir, "file"), "");
    expect(refusal("", { CGN__AGENT__STATE_DIR: `${dir}/file/x` })).toContain("at CGN__AGENT__STATE_DIR: ");
  });

  it.runIf(process.platform === "linux")("refuses a file system that takes no folders, and ends", () => {
    // Broke: Node's recursive mkdir never returned.
    expect(refusal('[agent]\nlog_dir = "/proc/cgn/logs"\n')).toContain("ENOENT");
  });

  it("makes what is missing, leaves nothing in it, and looks only at the keys that are asked for", () => {
    writeFileSync(join(dir, "file"), "");
    const folders = written(`[agent]\nstate_dir = "a/b/c"\nlog_dir = "${dir}/file/x"\n`.replace("a/b", `${dir}/a/b`));
    requireFolders(folders, ["agent.state_dir"]);
    expect(readdirSync(join(dir, "a", "b", "c"))).toEqual([]);
    expect(written("[agent]\nkeep_engines = true\n")).toEqual([]);
  });
});
