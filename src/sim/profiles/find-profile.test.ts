import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { findProfile, listProfiles } from "./find-profile.ts";
import { formatProfile, parseProfile } from "./profile-file.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function folderWith(file: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "cgn-profile-"));
  folders.push(folder);
  writeFileSync(join(folder, file), text);
  return folder;
}

describe("the profiles that ship", () => {
  const profiles = listProfiles();

  it("cover the hardware that people ask about, with models of 8B, 32B and 70B", () => {
    const names = profiles.map(({ name }) => name);
    for (const gpu of ["h100", "h200", "a100", "l40s", "rtx4090", "m4-max", "m3-ultra"]) {
      for (const model of ["8b", "32b", "70b"]) expect(names).toContain(`${gpu}-${model}`);
    }
    expect(new Set(names).size).toBe(names.length);
  });

  it("say where they come from and how far they may be off", () => {
    for (const { name, source, kind, errorPercent } of profiles) {
      expect(source.length, name).toBeGreaterThan(20);
      expect(kind, name).toBeDefined();
      if (kind !== "cited") continue;
      expect(source, name).toMatch(/https:\/\//);
      expect(errorPercent, name).toBeGreaterThanOrEqual(20);
    }
  });

  it("hold a request of 8,000 tokens", () => {
    for (const { name, deviceKvBytes, kvBytesPerToken } of profiles) {
      if (deviceKvBytes !== undefined) expect(deviceKvBytes / kvBytesPerToken!, name).toBeGreaterThan(8_000);
    }
  });

  it("are found by name", () => {
    for (const profile of profiles) expect(findProfile(profile.name, "/")).toEqual(profile);
  });
});

describe("findProfile()", () => {
  it("reads a file, relative to where one is", () => {
    const own = { ...findProfile("h100-8b", "/"), name: "mine" };
    const folder = folderWith("mine.json", formatProfile(own));
    expect(findProfile("mine.json", folder)).toEqual(own);
    expect(findProfile(join(folder, "mine.json"), "/")).toEqual(own);
  });

  it("names the nearest when there is none, and a file that is not there", () => {
    expect(() => findProfile("h100-8B", "/")).toThrow(/"h100-8B".*Use h100-8b,/);
    expect(() => findProfile("constructor", "/")).toThrow(/none of this name/);
    expect(() => findProfile("./nowhere.json", "/")).toThrow(/no such file/);
  });
});

describe("parseProfile()", () => {
  it("names each wrong member", () => {
    const text = JSON.stringify({ name: "x", kind: "guessed", source: "s", errorPercent: 1, stepMs: -1, extra: 1 });
    expect(() => parseProfile(text, "x.json")).toThrow(/kind: .*stepMs: .*prefillMsPerToken: .*extra/s);
    expect(() => parseProfile("{", "x.json")).toThrow(/no JSON/);
    expect(() => parseProfile("[]", "x.json")).toThrow(/the file/);
  });
});
