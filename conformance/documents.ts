import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Results } from "./answers.ts";
import { ROOT } from "./places.ts";
import { verifiedDataText } from "./verified-data-text.ts";
import { verifiedDocument } from "./verified-document.ts";

/** Files that are written from the results, by their path in the clone; a test fails when one on disk differs. */
export function documents(results: Results): ReadonlyMap<string, string> {
  return new Map([
    ["src/engines/verified-data.ts", verifiedDataText(results)],
    ["docs/verified.md", verifiedDocument(results)],
  ]);
}

export function writeDocuments(results: Results): void {
  for (const [path, text] of documents(results)) writeFileSync(join(ROOT, path), text);
}
