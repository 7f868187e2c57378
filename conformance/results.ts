import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Results } from "./answers.ts";

const FILE = join(import.meta.dirname, "results.json");

/** All that was asked and started so far, as committed. */
export function readResults(): Results {
  return JSON.parse(readFileSync(FILE, "utf8")) as Results;
}

/** Write one row a line, so that a diff shows what changed. */
export function writeResults(results: Results): void {
  const table = (rows: readonly object[]): string =>
    rows.length === 0 ? "[]" : `[\n${rows.map((row) => `    ${JSON.stringify(row)}`).join(",\n")}\n  ]`;
  const { cells, wrong, live } = results;
  writeFileSync(FILE, `{\n  "cells": ${table(cells)},\n  "wrong": ${table(wrong)},\n  "live": ${table(live)}\n}\n`);
}

/** New rows in place of the old ones of the same program and version (started things: of the same name). */
export function mergeResults(old: Results, fresh: Results): Results {
  const key = (row: { program: string; version: string }): string => `${row.program} ${row.version}`;
  const replaced = (rows: readonly { program: string; version: string }[]): Set<string> => new Set(rows.map(key));
  const cells = replaced(fresh.cells);
  const wrong = replaced(fresh.wrong);
  const live = new Set(fresh.live.map(({ name }) => name));
  return {
    cells: [...old.cells.filter((row) => !cells.has(key(row))), ...fresh.cells].sort(byProgram),
    wrong: [...old.wrong.filter((row) => !wrong.has(key(row))), ...fresh.wrong].sort(byProgram),
    live: [...old.live.filter(({ name }) => !live.has(name)), ...fresh.live].sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

type Versioned = { readonly program: string; readonly version: string };

/** Stable: rows of one program and version keep their order. */
const byProgram = (a: Versioned, b: Versioned): number =>
  a.program === b.program ? a.version.localeCompare(b.version) : a.program.localeCompare(b.program);
