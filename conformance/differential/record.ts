import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { Case } from "./case.ts";

/** What came back for a case. */
export interface Recorded {
  readonly name: string;
  /** 0: no answer. */
  readonly status: number;
  /** `content-type`, empty when there is none. */
  readonly type: string;
  readonly text: string;
}

/** How long one answer may take. */
const LIMIT_MS = 60_000;

/** Send the cases one after the other. What gives no answer in time is recorded with status 0. */
export async function record(
  url: string,
  cases: readonly Case[],
  onDone: (done: number) => void = () => {},
): Promise<readonly Recorded[]> {
  const all: Recorded[] = [];
  for (const each of cases) {
    all.push(await ask(url, each));
    onDone(all.length);
  }
  return all;
}

async function ask(url: string, { name, method, path, body, headers }: Case): Promise<Recorded> {
  try {
    const res = await fetch(`${url}${path}`, {
      method,
      headers: { "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    return { name, status: res.status, type: res.headers.get("content-type") ?? "", text: await res.text() };
  } catch (e) {
    return { name, status: 0, type: "", text: e instanceof Error ? e.message : String(e) };
  }
}

/** Read what `record` wrote. */
export function readRecorded(file: string | URL): readonly Recorded[] {
  const lines = gunzipSync(readFileSync(file)).toString("utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Recorded);
}
