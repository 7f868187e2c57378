import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { CgnError } from "../core/errors.ts";
import type { ModelFiles } from "./model-files.ts";

/** Largest files read: real ones are below 40 MiB and 1 MiB. */
const MAX_TOKENIZER_BYTES = 256 * 1024 * 1024;
const MAX_TEXT_BYTES = 16 * 1024 * 1024;

/**
 * Read a model folder in the Hugging Face layout: `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`,
 * `chat_template.jinja` (or `.json`), `config.json`. What is missing is left out.
 * @throws CgnError MODEL_NOT_FOUND when there is no such folder, STORAGE_UNUSABLE when a file is no JSON or too large
 */
export async function readModelFolder(dir: string): Promise<ModelFiles> {
  const found = await stat(dir).catch(() => undefined);
  if (found === undefined || !found.isDirectory()) {
    const is = found === undefined ? "there is no such folder" : "it is no folder";
    throw new CgnError("MODEL_NOT_FOUND", `Cannot read model "${dir}": ${is}. Name a folder with tokenizer.json`, {
      model: dir,
      known: [],
    });
  }
  const [tokenizerJson, config, special, model, template, templateJson] = await Promise.all([
    readJson(join(dir, "tokenizer.json"), MAX_TOKENIZER_BYTES),
    readJson(join(dir, "tokenizer_config.json"), MAX_TEXT_BYTES),
    readJson(join(dir, "special_tokens_map.json"), MAX_TEXT_BYTES),
    readJson(join(dir, "config.json"), MAX_TEXT_BYTES),
    readText(join(dir, "chat_template.jinja"), MAX_TEXT_BYTES),
    readJson(join(dir, "chat_template.json"), MAX_TEXT_BYTES),
  ]);
  const specialTokens = { ...specialTexts(special), ...specialTexts(config) };
  const chatTemplate =
    template ?? templateOf(field(config, "chat_template")) ?? templateOf(field(templateJson, "chat_template"));
  const maxModelTokens = contextOf(model);
  return {
    origin: dir,
    ...(tokenizerJson === undefined ? {} : { tokenizerJson }),
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    ...(specialTokens["bos_token"] === undefined ? {} : { bosToken: specialTokens["bos_token"] }),
    ...(specialTokens["eos_token"] === undefined ? {} : { eosToken: specialTokens["eos_token"] }),
    specialTokens,
    ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
  };
}

function field(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

/** Special tokens are texts, or objects with `content`. */
function specialTexts(value: unknown): Record<string, string> {
  const texts: Record<string, string> = {};
  if (typeof value !== "object" || value === null) return texts;
  for (const [key, token] of Object.entries(value)) {
    if (!key.endsWith("_token")) continue;
    const text = typeof token === "string" ? token : field(token, "content");
    if (typeof text === "string") texts[key] = text;
  }
  return texts;
}

/** A template is a text, or a list of named ones of which `default` counts. */
function templateOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return undefined;
  const named = value.find((entry) => field(entry, "name") === "default") ?? value[0];
  const template = field(named, "template");
  return typeof template === "string" ? template : undefined;
}

function contextOf(config: unknown): number | undefined {
  const tokens =
    field(config, "max_position_embeddings") ?? field(field(config, "text_config"), "max_position_embeddings");
  return typeof tokens === "number" && Number.isSafeInteger(tokens) && tokens > 0 ? tokens : undefined;
}

async function readText(path: string, maxBytes: number): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || !found.isFile()) return undefined;
  if (found.size > maxBytes) {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot read ${path}: it has ${found.size} bytes. At most ${maxBytes} are read`,
      {
        path,
      },
    );
  }
  return readFile(path, "utf8");
}

async function readJson(path: string, maxBytes: number): Promise<unknown> {
  const text = await readText(path, maxBytes);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot read ${path}: it is no JSON. Download the model's files again`,
      { path },
      { cause },
    );
  }
}
