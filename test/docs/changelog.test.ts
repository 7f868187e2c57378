import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
// @ts-expect-error: a script without types
import { collect, itemsOf, release, wrongChange } from "../../scripts/changelog.mjs";
import { ROOT } from "./markdown.ts";

const OLD = "# Changelog\n\n## 0.1.0 (unreleased)\n\nFirst form.\n\n- An older line.\n";

describe("collect()", () => {
  it("puts changes before older ones and keeps what stands above the list", () => {
    expect(collect(OLD, ["A new\nthing."])).toBe(
      "# Changelog\n\n## 0.1.0 (unreleased)\n\nFirst form.\n\n- A new thing.\n- An older line.\n",
    );
  });

  it("begins a list where there is none", () => {
    expect(collect("# Changelog\n\n## 0.2.0 (unreleased)\n", ["One."])).toBe(
      "# Changelog\n\n## 0.2.0 (unreleased)\n\n- One.\n",
    );
  });

  it("breaks long lines between words", () => {
    const lines = (collect(OLD, ["word ".repeat(80)]) as string).split("\n");
    expect(lines.every((line) => line.length <= 150)).toBe(true);
    expect(lines.filter((line) => line.startsWith("  word"))).toHaveLength(2);
  });
});

describe("itemsOf()", () => {
  it("takes a list apart, and anything else as one", () => {
    expect(itemsOf("- One\n  more.\n- Two.\n")).toEqual(["One\n  more.\n", "Two.\n"]);
    expect(itemsOf("One - and\nmore.")).toEqual(["One - and\nmore."]);
  });
});

describe("release()", () => {
  it("names what was unreleased, and begins the next", () => {
    expect(release(OLD, "0.1.0", "2026-11-30")).toContain(
      "## 0.2.0 (unreleased)\n\n## 0.1.0 (2026-11-30)\n\nFirst form.",
    );
  });
});

describe("changes/", () => {
  it("has change files that can be collected", () => {
    const names = readdirSync(join(ROOT, "changes")).filter((name) => name !== "README.md");
    const wrong = names.map((name) => wrongChange(name, readFileSync(join(ROOT, "changes", name), "utf8")));
    expect(wrong.filter((each) => each !== undefined)).toEqual([]);
  });

  it.each([
    ["Big Name.md", "Text."],
    ["empty.md", "\n"],
    ["heading.md", "# Text."],
    ["list.md", "- Text.\n- Half"],
    ["half.md", "Text"],
  ])("refuses %s with %j", (name, text) => {
    expect(wrongChange(name, text)).toContain(name);
  });
});
