import type { Block } from "./markdown.ts";

/**
 * What a page's blocks are to the runner:
 *
 * - `sh`: a shell block that is run, and must end with 0;
 * - `sh exit=10`: ends with that code;
 * - `sh serve=URL`: goes on running (the reader's other terminal); the next block is run when the URL answers 2xx;
 * - `sh alone serve=URL`: what ran before is ended first (the reader's Ctrl-C);
 * - `sh no-run: REASON`: not run; the reason begins with one of `NO_RUN`;
 * - `text output`: what the block before printed has these lines in this order; `…` stands for anything;
 * - a file whose first line is a comment with a name (`# cgn.toml`): written into the folder, for the blocks that follow.
 */
export type Step =
  | { readonly type: "run"; readonly block: Block; readonly exit: number }
  | { readonly type: "serve"; readonly block: Block; readonly url: string; readonly alone: boolean }
  | { readonly type: "skip"; readonly block: Block; readonly reason: string }
  | { readonly type: "output"; readonly block: Block }
  | { readonly type: "file"; readonly block: Block; readonly name: string };

/** Why a command may not be run by the tests. */
export const NO_RUN = ["hardware", "network", "kubernetes", "host", "itself"] as const;

const FILES: Readonly<Record<string, RegExp>> = {
  toml: /^# ([\w./-]+\.toml)\b/,
  yaml: /^# ([\w./-]+\.ya?ml)\b/,
  json: /^\/\/ ([\w./-]+\.json)\b/,
  python: /^# ([\w./-]+\.py)\b/,
};

/** @throws Error for a mark that is not known */
export function stepsOf(blocks: readonly Block[]): Step[] {
  return blocks.flatMap((block): Step[] => {
    if (block.lang === "sh") return [shellStep(block)];
    if (block.lang === "text" && block.marks === "output") return [{ type: "output", block }];
    const name = FILES[block.lang]?.exec(block.text)?.[1];
    return name === undefined ? [] : [{ type: "file", block, name }];
  });
}

function shellStep(block: Block): Step {
  const skipped = /^no-run: (.+)$/.exec(block.marks);
  if (skipped !== null) {
    const reason = skipped[1]?.split(",")[0] ?? "";
    if (!NO_RUN.some((known) => known === reason))
      throw new Error(
        `line ${block.line}: write "no-run: WHY, WORDS" with WHY one of ${NO_RUN.join(", ")}, not ${reason}`,
      );
    return { type: "skip", block, reason: block.marks.slice("no-run: ".length) };
  }
  const marks = block.marks.split(/\s+/).filter((mark) => mark !== "");
  const value = (name: string): string | undefined =>
    marks.find((mark) => mark.startsWith(`${name}=`))?.slice(name.length + 1);
  const unknown = marks.filter((mark) => mark !== "alone" && !/^(?:serve|exit)=/.test(mark));
  if (unknown.length > 0) throw new Error(`line ${block.line}: unknown mark ${unknown.join(" ")}`);
  const url = value("serve");
  if (url !== undefined) return { type: "serve", block, url, alone: marks.includes("alone") };
  return { type: "run", block, exit: Number(value("exit") ?? 0) };
}

/** Lines of `wanted` that `printed` lacks, in order; `…` is anything. */
export function missingLines(wanted: string, printed: string): string[] {
  const lines = printed.split("\n").map(plain);
  let at = 0;
  return wanted
    .split("\n")
    .filter((line) => line.trim() !== "" && line.trim() !== "…")
    .filter((line) => {
      const pattern = new RegExp(`^${plain(line).split("…").map(escaped).join(".*")}$`);
      const found = lines.findIndex((each, n) => n >= at && pattern.test(each));
      if (found < 0) return true;
      at = found + 1;
      return false;
    });
}

/** Without what nobody sees: ends of lines, and how wide a column is. */
const plain = (line: string): string => line.trim().replaceAll(/ {2,}/g, "  ");

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
