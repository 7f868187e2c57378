import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..", "..");

/** A fenced block of a page. */
export interface Block {
  /** Line of the opening fence, from 1. */
  readonly line: number;
  readonly lang: string;
  /** What stands behind the language: the runner's marks (see docs/README of the folder: test/docs/run-page.ts). */
  readonly marks: string;
  readonly text: string;
}

/** All pages that people read, relative to the root: README, CONTRIBUTING and docs/. */
export function pages(): string[] {
  const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  const found = docs.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`);
  return ["README.md", "CONTRIBUTING.md", ...found.sort()];
}

export const readPage = (page: string): string => readFileSync(join(ROOT, page), "utf8");

/** The fenced blocks of a page, in order. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const fence = /^(`{3,})([\w-]*)[ \t]*(.*)$/.exec(lines[at] ?? "");
    if (fence === null) continue;
    const [, ticks = "", lang = "", marks = ""] = fence;
    const end = lines.findIndex((line, n) => n > at && line.trimEnd() === ticks);
    if (end < 0) throw new Error(`line ${at + 1}: a fence that is never closed`);
    blocks.push({ line: at + 1, lang, marks: marks.trim(), text: lines.slice(at + 1, end).join("\n") });
    at = end;
  }
  return blocks;
}

/** The page without its fenced blocks; lines keep their numbers. */
export function proseOf(text: string): string {
  const lines = text.split("\n");
  for (const { line, text: inside } of blocksOf(text)) {
    const count = inside.split("\n").length + 2;
    for (let n = 0; n < count; n++) lines[line - 1 + n] = "";
  }
  return lines.join("\n");
}

/** Code spans of the prose. */
export const spansOf = (text: string): string[] =>
  [...proseOf(text).matchAll(/`([^`\n]+)`/g)].map(([, span = ""]) => span);
