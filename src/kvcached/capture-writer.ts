import { createWriteStream, type WriteStream } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { CgnError } from "../core/errors.ts";
import type { KvEvent, KvEventBatch } from "../core/kv-event.ts";
import { TIERS } from "../kvindex/tiers.ts";

/** Appends the rows of a capture; each line is whole or not there. */
export interface CaptureWriter {
  frame(row: Readonly<Record<string, unknown>>): void;
  request(row: Readonly<Record<string, unknown>>): void;
  close(): Promise<void>;
}

/**
 * Open a new capture folder.
 * @throws CgnError STORAGE_UNUSABLE when it cannot be made or already holds a capture
 */
export async function openCapture(dir: string): Promise<CaptureWriter> {
  const taken = await stat(join(dir, "frames.jsonl")).catch(() => undefined);
  if (taken !== undefined) {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot capture to ${dir}: it holds a capture already. Name an empty folder`,
      { path: dir },
    );
  }
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause) => {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot make folder ${dir}: ${String(cause)}. Name another`,
      { path: dir },
      { cause },
    );
  });
  // Prompts may be in it: only the owner may read.
  const open = (name: string) => createWriteStream(join(dir, name), { mode: 0o600, flags: "wx" });
  const [frames, requests] = [open("frames.jsonl"), open("requests.jsonl")];
  const line = (to: WriteStream) => (row: Readonly<Record<string, unknown>>) =>
    void to.write(`${JSON.stringify(row)}\n`);
  const end = (stream: WriteStream) => new Promise<void>((resolve) => stream.end(() => resolve()));
  return {
    frame: line(frames),
    request: line(requests),
    close: async () => void (await Promise.all([end(frames), end(requests)])),
  };
}

/** A batch as JSON: names as decimal texts, token ids as a list. */
export function batchToJson(batch: KvEventBatch): unknown {
  return {
    ts: batch.ts,
    events: batch.events.map((event) => {
      if (event.type === "cleared") return event;
      const names = Array.from(event.names, String);
      if (event.type !== "stored") return { ...event, names };
      return {
        ...event,
        names,
        parent: event.parent === undefined ? null : String(event.parent),
        tokenIds: [...event.tokenIds],
      };
    }),
  };
}

/** The inverse of `batchToJson()`. @throws TypeError for anything else */
export function batchFromJson(json: unknown): KvEventBatch {
  const { ts, events } = json as { ts: number; events: readonly Record<string, unknown>[] };
  if (typeof ts !== "number" || !Array.isArray(events)) throw new TypeError("no batch");
  return { ts, dpRank: undefined, events: events.map(eventFromJson) };
}

function eventFromJson(event: Readonly<Record<string, unknown>>): KvEvent {
  if (event["type"] === "cleared") return { type: "cleared" };
  const names = (event["names"] as readonly string[]).map(BigInt);
  const tier = TIERS.find((name) => name === event["tier"]);
  const group = event["group"] === undefined ? undefined : numberOf(event["group"]);
  if (event["type"] === "removed") return { type: "removed", names, tier, group };
  if (event["type"] === "copied" && tier !== undefined) return { type: "copied", names, tier, group };
  if (event["type"] !== "stored" || tier === undefined) throw new TypeError("no event");
  return {
    type: "stored",
    names,
    parent: event["parent"] === null ? undefined : BigInt(event["parent"] as string),
    tokenIds: Uint32Array.from(event["tokenIds"] as readonly number[]),
    blockTokens: numberOf(event["blockTokens"]),
    tier,
    lora: String(event["lora"]),
    extra: String(event["extra"]),
    group,
    ...(typeof event["reachesBack"] === "boolean" ? { reachesBack: event["reachesBack"] } : {}),
  };
}

function numberOf(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new TypeError("no count");
  return value;
}
