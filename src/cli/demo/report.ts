import type { Turn } from "./chats.ts";

const COLUMNS = ["request", "engine", "prompt", "predicted", "reported", "TTFT"] as const;

/** Terminals are at least so wide. */
const WIDTH = 80;

const seconds = (ms: number): string => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(2)} s`);

/**
 * A table of the three requests, why each went where it did, then what they prove in plain words. `why` has the router's
 * reason by request id.
 */
export function report(turns: readonly Turn[], why: ReadonlyMap<string, string>): readonly string[] {
  const rows = turns.map((t) => [
    t.title,
    t.node,
    String(t.promptTokens ?? "?"),
    String(t.predicted),
    String(t.reported ?? "?"),
    seconds(t.ttftMs),
  ]);
  const widths = COLUMNS.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells.map((cell, i) => (i < 2 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  const reasons = turns.flatMap((t) => {
    const reason = why.get(t.requestId) ?? "";
    return reason === "" ? [] : wrapped(`${t.title} → ${t.node}: ${reason}`);
  });
  const table = [line(COLUMNS), line(widths.map((w) => "-".repeat(w))), ...rows.map(line)];
  return [...table, "", ...reasons, ...(reasons.length > 0 ? [""] : []), ...verdict(turns)];
}

/** Lines of at most the terminal's width, all but the first a little to the right. */
function wrapped(text: string): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length > WIDTH && line !== "") {
      lines.push(line);
      line = `  ${word}`;
    } else line = longer;
  }
  return [...lines, line];
}

function verdict(turns: readonly Turn[]): readonly string[] {
  const [first, other, second] = turns;
  if (first === undefined || other === undefined || second === undefined) return [];
  const lines = [
    `cached tokens of turn 2: predicted ${second.predicted}, reported by the engine ${second.reported ?? "nothing"}`,
    `first token of the chat: ${seconds(first.ttftMs)} cold, ${seconds(second.ttftMs)} warm`,
    `the unrelated chat went to ${other.node === first.node ? "the same engine" : "the other engine"} (${other.node})`,
  ];
  return lines;
}

/**
 * What the demo promises, checked: the second turn went where the first was, its prediction is within 2 tokens of the
 * engine's own figure, and the unrelated chat is on the other engine. One line a broken promise.
 * @param followsAnswers false: what was sent is all that is known of a cache, so that the first answer's tokens may be reported above it
 */
export function brokenPromises(turns: readonly Turn[], followsAnswers = true): readonly string[] {
  const [first, other, second] = turns;
  if (first === undefined || other === undefined || second === undefined) return ["a request is missing"];
  const broken: string[] = [];
  if (second.node !== first.node) broken.push(`turn 2 went to ${second.node}, but turn 1 to ${first.node}`);
  if (other.node === first.node) broken.push(`the unrelated chat went to ${other.node}, where chat A is`);
  if (second.reported === undefined) broken.push("the engine reported no cached tokens for turn 2");
  else {
    const answer = followsAnswers ? 0 : (first.completionTokens ?? 0);
    const above = second.reported - second.predicted;
    if (above < -2 || above > answer + 2) {
      broken.push(`turn 2: ${second.predicted} cached tokens were predicted, ${second.reported} reported`);
    }
    if (second.reported === 0) broken.push("turn 2 had no prefix hit");
  }
  return broken;
}
