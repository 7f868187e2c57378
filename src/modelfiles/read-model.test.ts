import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serializeGgufMetadata } from "@huggingface/gguf";
import { afterAll, describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { findInHubCache } from "./hub-cache.ts";
import { readModel } from "./read-model.ts";

const home = await mkdtemp(join(tmpdir(), "cgn-modelfiles-"));
afterAll(() => rm(home, { recursive: true }));

async function folder(name: string, files: Readonly<Record<string, unknown>>): Promise<string> {
  const dir = join(home, name);
  await mkdir(dir, { recursive: true });
  for (const [file, content] of Object.entries(files)) {
    await writeFile(join(dir, file), typeof content === "string" ? content : JSON.stringify(content));
  }
  return dir;
}

const at = (dir: string) => readModel({ tokenizer: { dir }, repos: [], env: {} });

describe("readModel", () => {
  it("readModel() reads a folder, the template file before the configuration's", async () => {
    const dir = await folder("plain", {
      "tokenizer.json": { model: { vocab: {} } },
      "tokenizer_config.json": {
        chat_template: "old",
        bos_token: "<s>",
        eos_token: { content: "</s>" },
        pad_token: null,
      },
      "chat_template.jinja": "new",
      "config.json": { text_config: { max_position_embeddings: 8192 } },
    });
    expect(await at(dir)).toEqual({
      origin: dir,
      tokenizerJson: { model: { vocab: {} } },
      chatTemplate: "new",
      bosToken: "<s>",
      eosToken: "</s>",
      specialTokens: { bos_token: "<s>", eos_token: "</s>" },
      maxModelTokens: 8192,
    });
  });

  it("readModel() takes the default of several templates", async () => {
    const templates = [
      { name: "tool_use", template: "t" },
      { name: "default", template: "d" },
    ];
    const dir = await folder("several", { "tokenizer_config.json": { chat_template: templates } });
    expect((await at(dir))?.chatTemplate).toBe("d");
  });

  it("readModel() says what is wrong with a missing folder and a broken file", async () => {
    await expect(at(join(home, "none"))).rejects.toSatisfy((e) => isCgnError(e, "MODEL_NOT_FOUND"));
    const broken = await folder("broken", { "tokenizer.json": "{" });
    await expect(at(broken)).rejects.toThrow(/tokenizer.json: it is no JSON/);
  });

  it("readModel() reads a GGUF's vocabulary and template", async () => {
    const path = join(home, "tiny.gguf");
    await writeFile(path, tinyGguf());
    const files = await readModel({ tokenizer: { gguf: path }, repos: [], env: {} });
    expect(files).toMatchObject({
      chatTemplate: "{{ x }}",
      bosToken: "<s>",
      eosToken: "</s>",
      maxModelTokens: 512,
      gguf: {
        model: "gpt2",
        pre: "smollm",
        tokens: ["<s>", "</s>", "a"],
        tokenTypes: [3, 3, 1],
        bosId: 0,
        eosId: 1,
        addBos: false,
      },
    });
  });

  it("readModel() refuses a file that is no GGUF", async () => {
    const path = join(home, "text.gguf");
    await writeFile(path, "hello hello hello hello hello hello");
    await expect(readModel({ tokenizer: { gguf: path }, repos: [], env: {} })).rejects.toSatisfy((e) =>
      isCgnError(e, "STORAGE_UNUSABLE"),
    );
  });
});

describe("findInHubCache", () => {
  it("findInHubCache() gives the snapshot that refs/main names", async () => {
    await folder("hub/models--org--name/refs", { main: "abc\n" });
    const dir = await folder("hub/models--org--name/snapshots/abc", { "config.json": {} });
    await folder("hub/models--org--name/snapshots/zzz", { "config.json": {} });
    expect(await findInHubCache("org/name", { HF_HOME: home })).toBe(dir);
    expect((await readModel({ tokenizer: {}, repos: ["org/name"], env: { HF_HOME: home } }))?.origin).toBe(dir);
    expect((await readModel({ tokenizer: { dir: "org/name" }, repos: [], env: { HF_HOME: home } }))?.origin).toBe(dir);
  });

  it("findInHubCache() gives undefined for what is not there or no name", async () => {
    expect(await findInHubCache("org/other", { HF_HOME: home })).toBeUndefined();
    expect(await findInHubCache("../hub", { HF_HOME: home })).toBeUndefined();
  });
});

/** A GGUF header without tensors, written by the library that reads it. */
function tinyGguf(): Uint8Array {
  const text = (value: string) => ({ value, type: 8 });
  const uint = (value: number) => ({ value, type: 4 });
  const metadata = {
    version: { value: 3, type: 4 },
    tensor_count: { value: 0n, type: 10 },
    kv_count: { value: 10n, type: 10 },
    "general.architecture": text("llama"),
    "llama.context_length": uint(512),
    "tokenizer.ggml.model": text("gpt2"),
    "tokenizer.ggml.pre": text("smollm"),
    "tokenizer.ggml.tokens": { value: ["<s>", "</s>", "a"], type: 9, subType: 8 },
    "tokenizer.ggml.token_type": { value: [3, 3, 1], type: 9, subType: 5 },
    "tokenizer.ggml.bos_token_id": uint(0),
    "tokenizer.ggml.eos_token_id": uint(1),
    "tokenizer.ggml.add_bos_token": { value: false, type: 7 },
    "tokenizer.chat_template": text("{{ x }}"),
  };
  return serializeGgufMetadata(metadata as unknown as Parameters<typeof serializeGgufMetadata>[0]);
}
