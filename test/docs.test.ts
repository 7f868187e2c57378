import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { GENERATED } from "../src/cli/generated-docs.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

describe("generated files", () => {
  it.each(GENERATED)("$path is what the code says (rewrite it with npm run docs)", async ({ path, content }) => {
    expect(readFileSync(`${ROOT}${path}`, "utf8")).toBe(await content());
  });
});
