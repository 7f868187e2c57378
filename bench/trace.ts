import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A request of a trace: names of its chunks of 512 tokens, equal where the text up to there is. */
export type TraceRequest = readonly number[];

export interface Trace {
  readonly name: string;
  readonly requests: readonly TraceRequest[];
}

/** Where the Mooncake traces lie in a checkout beside ours. */
const DEFAULT_PATH = join(import.meta.dirname, "..", "..", "shared", "traces", "mooncake-conversation.jsonl");
const SYNTHETIC_SESSIONS = 2500;
const SYNTHETIC_TURNS = 5;

/** The Mooncake conversation trace (JSON lines with `hash_ids`), or a small made-up one when it is not there. */
export function readTrace(path: string | undefined): Trace {
  const file = path ?? DEFAULT_PATH;
  if (path === undefined && !existsSync(file))
    return { name: "synthetic conversations", requests: syntheticRequests() };
  const lines = readFileSync(file, "utf8").trim().split("\n");
  const requests = lines.map((line) => (JSON.parse(line) as { readonly hash_ids: number[] }).hash_ids);
  return { name: "Mooncake conversations", requests };
}

/** Chats whose turns take turns: each goes on from all of the one before, behind one of a few system prompts. */
function syntheticRequests(): TraceRequest[] {
  let next = 1000;
  const fresh = (count: number): number[] => Array.from({ length: count }, () => next++);
  const sessions = Array.from({ length: SYNTHETIC_SESSIONS }, (_, i) => [i % 20, ...fresh(4 + ((i * 7) % 17))]);
  const requests: TraceRequest[] = [];
  for (let turn = 0; turn < SYNTHETIC_TURNS; turn++) {
    for (const session of sessions) {
      requests.push([...session]);
      session.push(...fresh(1 + ((session.length * 5) % 6)));
    }
  }
  return requests;
}
