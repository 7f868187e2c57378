import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ModelNeed } from "../../core/host-needs.ts";
import { freeBytes, readModelState } from "./read-model.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-model-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

const nowhere = async (): Promise<undefined> => undefined;
const look = (need: Partial<ModelNeed>, env = {}, find: (repo: string) => Promise<string | undefined> = nowhere) =>
  readModelState({ layout: "any", keys: [], ...need }, env, find);

const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 4976698672\n`;

describe("readModelState()", () => {
  it("counts safetensors once, and not the same weights in other formats", async () => {
    const path = join(dir, "good");
    mkdirSync(path);
    for (const name of ["a.safetensors", "b.safetensors", "pytorch_model.bin"])
      writeFileSync(join(path, name), "x".repeat(2_000));
    writeFileSync(join(path, "config.json"), "{}");
    expect(await look({ path })).toEqual({ at: path, isFolder: true, hasConfig: true, weightBytes: 4_000, broken: [] });
  });

  it("tells Git LFS pointers, empty files and links that lead nowhere", async () => {
    const path = join(dir, "broken");
    mkdirSync(path);
    writeFileSync(join(path, "a.safetensors"), POINTER);
    writeFileSync(join(path, "b.safetensors"), "");
    symlinkSync("../../blobs/none", join(path, "c.safetensors"));
    const { broken, weightBytes, hasConfig } = await look({ path });
    expect([broken, weightBytes, hasConfig]).toEqual([["a.safetensors", "b.safetensors", "c.safetensors"], 0, false]);
    writeFileSync(join(dir, "m.gguf"), POINTER);
    expect(await look({ path: join(dir, "m.gguf") })).toMatchObject({ isFolder: false, broken: [join(dir, "m.gguf")] });
  });

  it("looks for a hub name in the cache, and says whether the hub is off", async () => {
    const path = join(dir, "cached");
    mkdirSync(path);
    expect(await look({ repo: "org/m" }, {}, async (repo) => (repo === "org/m" ? path : undefined))).toMatchObject({
      at: path,
    });
    expect(await look({ repo: "org/m" }, { HF_HUB_OFFLINE: "1", HOME: dir })).toMatchObject({ hubOffline: true });
    expect(await look({ repo: "org/m" }, { HOME: dir })).toMatchObject({ hubOffline: false });
    expect(await look({ path: join(dir, "none") })).not.toHaveProperty("at");
  });
});

describe("freeBytes()", () => {
  it("tells the room of a folder that is to be made", async () => {
    expect(await freeBytes(join(dir, "a", "b", "c"))).toBeGreaterThan(0);
  });
});
