import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..", "..");

export const SMOLLM2 = join(ROOT, "test", "fixtures", "models", "smollm2");
export const VLLM_RUNS = ["sha256-noseed-int", "sha256_cbor-seed0-bytes", "sha256_cbor-seed0-int"] as const;

export const vllmRun = (name: string): string => join(ROOT, "test", "fixtures", "vllm", name);
export const sglangRun = (name: string): string => join(ROOT, "test", "fixtures", "sglang", name);

export function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, "utf8")) as T;
}

/** Payloads that a live SGLang 0.5.23 published (page size 16), by sequence number. */
export function sglangLive(): readonly { readonly seq: number; readonly payload: Uint8Array }[] {
  const path = join(ROOT, "src", "engines", "sglang", "testdata", "live_kv_events.json");
  const rows = readJson<{ seq: number; payload_b64: string }[]>(path);
  return rows.map((row) => ({ seq: row.seq, payload: Buffer.from(row.payload_b64, "base64") }));
}

export const sglangFrames = (): {
  frames: { seq: number; payload_b64: string }[];
  replay_from_seq_2: unknown;
} => readJson(join(ROOT, "src", "engines", "sglang", "testdata", "kv_event_frames.json"));
