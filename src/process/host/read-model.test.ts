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

/** A safetensors file with one tensor of so many bytes. */
function tensors(bytes: number): Buffer {
  const header = Buffer.from(JSON.stringify({ a: { dtype: "U8", shape: [bytes], data_offsets: [0, bytes] } }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, Buffer.alloc(bytes, 1)]);
}

const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 4976698672\n`;

describe("readModelState()", () => {
  it("counts safetensors once, and not the same weights in other formats", async () => {
    const path = join(dir, "good");
    mkdirSync(path);
    for (const name of ["a.safetensors", "b.safetensors", "pytorch_model.bin"])
      writeFileSync(join(path, name), tensors(2_000));
    writeFileSync(join(path, "config.json"), "{}");
    expect(await look({ path })).toEqual({
      at: path,
      isFolder: true,
      hasConfig: true,
      weightBytes: 2 * tensors(2_000).length,
      broken: [],
      missing: [],
    });
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

  // Half downloads passed: only empty files and pointers were seen.
  it("tells files that are cut, of zeros or of another format, by their heads", async () => {
    const path = join(dir, "cut");
    mkdirSync(path);
    writeFileSync(join(path, "cut.safetensors"), tensors(500).subarray(0, -1));
    writeFileSync(join(path, "page.safetensors"), "<html>not found</html>".repeat(100));
    writeFileSync(join(path, "tiny.safetensors"), "x");
    writeFileSync(join(path, "whole.safetensors"), tensors(500));
    writeFileSync(join(path, "zeros.safetensors"), Buffer.alloc(5_000));
    const names = ["cut", "page", "tiny", "zeros"].map((name) => `${name}.safetensors`);
    expect((await look({ path })).broken?.toSorted()).toEqual(names);
    const gguf = join(dir, "zeros.gguf");
    writeFileSync(gguf, Buffer.alloc(5_000));
    expect((await look({ path: gguf })).broken).toEqual([gguf]);
    writeFileSync(gguf, "GGUF then the rest");
    expect((await look({ path: gguf, layout: "gguf" })).broken).toEqual([]);
    const bin = join(dir, "zeros");
    mkdirSync(bin);
    writeFileSync(join(bin, "pytorch_model.bin"), Buffer.alloc(5_000));
    expect((await look({ path: bin })).broken).toEqual(["pytorch_model.bin"]);
  });

  it("tells shards that an index names and that are not there", async () => {
    const path = join(dir, "shards");
    mkdirSync(path);
    const index = { weight_map: { a: "1.safetensors", b: "2.safetensors", c: "2.safetensors" } };
    writeFileSync(join(path, "model.safetensors.index.json"), JSON.stringify(index));
    expect((await look({ path })).missing).toEqual(["1.safetensors", "2.safetensors"]);
    writeFileSync(join(path, "1.safetensors"), tensors(9));
    expect((await look({ path })).missing).toEqual(["2.safetensors"]);
    // Mistral's: the same weights in one file, which is what the engine loads.
    rmSync(join(path, "1.safetensors"));
    writeFileSync(join(path, "consolidated.safetensors"), tensors(9));
    expect((await look({ path })).missing).toEqual([]);
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
