import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findProgram, interpreterIn } from "./program.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-program-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

function script(name: string, text: string, mode = 0o755): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

describe("interpreterIn()", () => {
  it.each([
    ["#!/venv/bin/python3\nimport sys", "/venv/bin/python3"],
    ["#!/usr/bin/env python3.12\n", "python3.12"],
    ["#!/usr/bin/env -S PYTHONHASHSEED=0 python3 -E\n", "python3"],
    [`#!/bin/sh\n'''exec' "/a long/path/bin/python3" "$0" "$@"\n' '''`, "/a long/path/bin/python3"],
    [`#!/bin/sh\n'''exec' /a/bin/python3 "$0" "$@"\n' '''`, "/a/bin/python3"],
    ["#!/bin/sh\nexec vllm", undefined],
    ["\u007fELF", undefined],
    ["", undefined],
  ])("reads %j", (text, python) => {
    expect(interpreterIn(text)).toBe(python);
  });
});

describe("findProgram()", () => {
  it("finds a console script in PATH with the Python that runs it, past one that cannot be run", async () => {
    mkdirSync(join(dir, "first"));
    writeFileSync(join(dir, "first", "vllm"), "not for running", { mode: 0o644 });
    const python = script("python3", "#!/bin/sh\n");
    const vllm = script("vllm", `#!${python}\n`);
    expect(await findProgram("vllm", { PATH: `${join(dir, "first")}:${dir}` })).toEqual({ path: vllm, python });
    expect(await findProgram(python, {})).toEqual({ path: python, python });
  });

  it("tells a script whose Python is gone, a file without the right to run, and what is not there", async () => {
    const moved = script("moved", "#!/no/such/python3\n");
    expect(await findProgram(moved, {})).toEqual({ path: moved, pythonMissing: "/no/such/python3" });
    const plain = script("plain", "x", 0o644);
    expect(await findProgram(plain, {})).toEqual({ unrunnable: plain, looksRunnable: false });
    const program = script("program", "\x7fELF", 0o644);
    expect(await findProgram(program, {})).toEqual({ unrunnable: program, looksRunnable: true });
    expect(await findProgram(dir, {})).toEqual({ unrunnable: dir, looksRunnable: false });
    expect(await findProgram("nothing-of-that-name", { PATH: dir })).toEqual({});
  });

  it("does not take a program of another language for Python", async () => {
    const sim = script("sim", "#!/usr/bin/env node\n");
    expect(await findProgram(sim, { PATH: process.env["PATH"] })).toEqual({ path: sim });
    const link = join(dir, "linked");
    symlinkSync(sim, link);
    expect(await findProgram(link, {})).toEqual({ path: link });
  });
});
