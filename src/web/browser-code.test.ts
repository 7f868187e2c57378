import { describe, expect, it } from "vitest";
import { browserCode } from "./browser-code.ts";

describe("browserCode()", () => {
  it("takes types out, and makes imports URLs", async () => {
    const source = [
      'import { Component, h as create } from "preact";',
      'import type { History } from "./data.ts";',
      "import {",
      "  type Asked,",
      "  FIRST_STATE,",
      '} from "./state.ts";',
      'import "./side.ts";',
      'export { x } from "./x.ts";',
      'const text: string = "from ./y.ts";',
    ].join("\n");
    const code = await browserCode(source, true);
    expect(
      code
        .replaceAll(/ +/g, " ")
        .split("\n")
        .map((line) => line.trim())
        .filter(Boolean),
    ).toEqual([
      'import { Component, h as create } from "/page/lib/preact.js";',
      "import {",
      "FIRST_STATE,",
      '} from "./state.js";',
      'import "./side.js";',
      'export { x } from "./x.js";',
      'const text = "from ./y.ts";',
    ]);
  });

  it("leaves what tsc made as it is, but for the library's name", async () => {
    const made = 'import { h as create } from "preact";\nimport { call } from "./api.js";\n';
    expect(await browserCode(made, false)).toBe(made.replace('"preact"', '"/page/lib/preact.js"'));
  });

  it("gives modules that a JavaScript engine reads", async () => {
    const { pageFiles } = await import("./page-files.ts");
    for (const [path, { body, type }] of await pageFiles()) {
      if (!type.startsWith("text/javascript")) continue;
      for (const [, from] of body.toString().matchAll(/^(?:import|export) .*from ?"([^"]+)";?$/gm)) {
        const target = new URL(from!, `http://x${path}`).pathname;
        expect((await pageFiles()).has(target), `${path} -> ${from}`).toBe(true);
      }
    }
  });
});
