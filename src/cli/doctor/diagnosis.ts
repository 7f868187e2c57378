import type { Problem } from "../../core/errors.ts";

/** How bad a finding is. `good`: looked at, and as it should be. */
export type Level = "good" | "note" | "warning" | "error";

/** One thing that was looked at. */
export interface Diagnosis {
  /** What part of the host, one word: `ports`, `engines`. */
  readonly area: string;
  readonly level: Level;
  /** What is. */
  readonly what: string;
  /** Why it matters; left out where `what` says it. */
  readonly why?: string;
  /** What to do. */
  readonly mend?: string;
  /** A shell command that would do it. Never run. */
  readonly fix?: string;
  /** Stable, for a program that reads `--json`: a finding's code, or an alarm's. */
  readonly code?: string;
}

/** A problem of a file or of this host for it, as `cgn check` tells it. */
export function fromProblem(p: Problem): Diagnosis {
  const place = p.file === undefined ? "" : `${p.file}${p.line === undefined ? "" : `:${p.line}:${p.column ?? 1}`}: `;
  const key = p.path === "" ? "" : `${p.path}: `;
  return {
    area: "configuration",
    level: p.severity,
    what: `${place}${key}${p.problem}`,
    ...(p.remedy === undefined ? {} : { mend: p.remedy }),
    ...(p.fix === undefined ? {} : { fix: p.fix }),
    ...(p.code === undefined ? {} : { code: p.code }),
  };
}

const MARKS: Readonly<Record<Level, string>> = { good: "ok  ", note: "note", warning: "WARN", error: "BAD " };

/** What a person reads: bad things first within an area, each with why and what to do below it. */
export function diagnosisText(found: readonly Diagnosis[]): string {
  const areas = [...new Set(found.map(({ area }) => area))];
  const blocks = areas.map((area) => {
    const own = found.filter((each) => each.area === area);
    const lines = own.toSorted((a, b) => RANK[b.level] - RANK[a.level]).flatMap(linesOf);
    return [area, ...lines].join("\n");
  });
  return blocks.join("\n\n");
}

const RANK: Readonly<Record<Level, number>> = { good: 0, note: 1, warning: 2, error: 3 };

function linesOf({ level, what, why, mend, fix }: Diagnosis): string[] {
  const plain = (text: string): string => text.replaceAll(/\p{Cc}+/gu, " ");
  return [
    `  ${MARKS[level]}  ${plain(what)}`,
    ...(why === undefined ? [] : [`        ${plain(why)}`]),
    ...(mend === undefined ? [] : [`        → ${plain(mend)}`]),
    ...(fix === undefined ? [] : [`          ${plain(fix)}`]),
  ];
}

/** 0 when nothing is worse than a note, else 1: warnings alone are 0 too unless asked for. */
export function exitOf(found: readonly Diagnosis[], isStrict: boolean): number {
  return found.some(({ level }) => level === "error" || (isStrict && level === "warning")) ? 1 : 0;
}
