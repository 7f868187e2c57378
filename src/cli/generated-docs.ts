import { configJsonSchemaText } from "../config/json-schema.ts";
import { configReferenceMarkdown } from "../config/reference.ts";
import { metricsMarkdown } from "../telemetry/metrics.ts";

/** A file in the repository that is written from the code. */
export interface GeneratedFile {
  /** Relative to the package's root. */
  readonly path: string;
  content(): string | Promise<string>;
}

/** Every generated file; `npm run docs` writes them, and a test fails when one on disk differs. */
export const GENERATED: readonly GeneratedFile[] = [
  { path: "cgn.schema.json", content: () => configJsonSchemaText() },
  { path: "docs/configuration.md", content: () => configReferenceMarkdown() },
  { path: "docs/metrics.md", content: () => metricsMarkdown() },
];
