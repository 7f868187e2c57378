import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CgnError } from "../../core/errors.ts";
import type { CliContext } from "../command.ts";
import type { OutputFile } from "./rendered-engine.ts";

/**
 * Print files, or write them below a folder.
 * @throws CgnError STORAGE_UNUSABLE when the folder cannot be written
 */
export function emitFiles(files: readonly OutputFile[], folder: string | undefined, cli: CliContext): void {
  if (folder === undefined) {
    for (const [n, file] of files.entries()) {
      if (files.length > 1) cli.out(`${n > 0 ? "\n" : ""}# ---- ${file.path} ----`);
      cli.out(file.text.trimEnd());
    }
    return;
  }
  const target = resolve(cli.cwd, folder);
  try {
    mkdirSync(target, { recursive: true });
    for (const { path, text, mode = 0o644 } of files) writeFileSync(join(target, path), text, { mode });
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e);
    throw new CgnError("STORAGE_UNUSABLE", `Cannot write to ${target}: ${why}. Name a folder that can be written`, {
      folder: target,
    });
  }
  for (const { path } of files) cli.err(`wrote ${join(target, path)}`);
}
