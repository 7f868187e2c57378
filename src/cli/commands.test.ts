import { describe, expect, it } from "vitest";
import { COMMANDS } from "./commands.ts";

/** Words that are written with capitals wherever they stand. */
const NAMES = /^(HTTP|KV|TCP|JSON|Unix|URL|GPU)\b/;

describe("the help of all commands", () => {
  for (const { name, about, options, positionals } of COMMANDS) {
    // Summaries mixed capitals: "Check a configuration" beside "show what engines wrote".
    it(`${name}: texts begin with small letters`, () => {
      const texts = [about, ...Object.values(options).map((o) => o.about), ...(positionals ?? []).map((p) => p.about)];
      expect(texts.filter((text) => /^[A-Z]/.test(text) && !NAMES.test(text))).toEqual([]);
    });
  }

  it("every daemon has --log-level", () => {
    const daemons = COMMANDS.filter(({ name }) => ["up", "agent", "router", "kvcached"].includes(name));
    expect(daemons).toHaveLength(4);
    for (const { options } of daemons) expect(options["log-level"]).toMatchObject({ default: "info" });
  });
});
