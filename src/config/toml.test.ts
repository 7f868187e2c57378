import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { formatKeyPath } from "./key-path.ts";
import { parseToml } from "./toml.ts";

const SAMPLE = `a = 1
b.c = "x"
[m."na me".t]
  l = [1, [2, 3], { k = true }]
[[e]]
k = 0x10
[e.s]
z = 1.5
[[e]]
i = { x = 1, y.z = 'q' }
`;

describe("parseToml()", () => {
  it("parseToml() gives plain values", () => {
    expect(JSON.parse(JSON.stringify(parseToml(SAMPLE, "f").value))).toEqual({
      a: 1,
      b: { c: "x" },
      m: { "na me": { t: { l: [1, [2, 3], { k: true }] } } },
      e: [{ k: 16, s: { z: 1.5 } }, { i: { x: 1, y: { z: "q" } } }],
    });
  });

  it.each([
    ["a", 1, 1, 1, 5],
    ["b.c", 2, 3, 2, 7],
    ['m."na me".t', 3, 2, 3, 2],
    ['m."na me".t.l', 4, 3, 4, 7],
    ['m."na me".t.l[1][0]', 4, 12, 4, 12],
    ['m."na me".t.l[2].k', 4, 21, 4, 25],
    ["e[0].k", 6, 1, 6, 5],
    ["e[0].s.z", 8, 1, 8, 5],
    ["e[1].i.y.z", 10, 16, 10, 20],
  ])("parseToml() places %s", (path, line, column, valueLine, valueColumn) => {
    expect(parseToml(SAMPLE, "f").places.get(path)).toEqual({
      key: { line, column },
      value: { line: valueLine, column: valueColumn },
    });
  });

  it("parseToml() keeps a key named __proto__ a key", () => {
    const { value } = parseToml("[__proto__]\nx = 1\n", "f");
    expect(Object.keys(value)).toEqual(["__proto__"]);
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  it.each([
    ['{"engine": {"kind": "vllm"}}', "f:1:1", "looks like JSON"],
    ["engine:\n  kind: vllm\n", "f:1:7", "looks like YAML"],
    ["[engine]\nkind = vllm\n", "f:2:8", "A text stands in quotes"],
    ["[auth]\nenabled = True\n", "f:2:11", "Booleans are written true and false"],
    ["[agent]\nheartbeat = 5s\n", "f:2:14", "A duration stands in quotes"],
    ["a = 1\na = 2\n", "f:2:1", "multiple times"],
    ["[engine\nkind = 1\n", "f:2:1", "Close the header: [engine]"],
  ])("parseToml() says where %j is not TOML, and what was meant", (text, place, said) => {
    try {
      parseToml(text, "f");
      expect.unreachable();
    } catch (e) {
      expect(isCgnError(e, "CONFIG_INVALID")).toBe(true);
      expect((e as Error).message).toContain(place);
      expect((e as Error).message).toContain(said);
    }
  });
});

const key = fc.string({ minLength: 1, maxLength: 8 }).filter((text) => !/\p{Cc}/u.test(text) && text.isWellFormed());
const value = fc.oneof(fc.integer(), fc.boolean(), key);

describe("places of parseToml()", () => {
  it("parseToml() places every key at its own text, whatever the padding", () => {
    const line = fc.record({ key, value, indent: fc.nat(5), gap: fc.nat(3), blanks: fc.nat(2) });
    fc.assert(
      fc.property(key, fc.uniqueArray(line, { selector: (each) => each.key, maxLength: 8 }), (table, lines) => {
        const text = [
          `[${JSON.stringify(table)}]`,
          ...lines.flatMap((each) => [
            ...Array.from({ length: each.blanks }, () => ""),
            `${" ".repeat(each.indent)}${JSON.stringify(each.key)}${" ".repeat(each.gap)}= ${JSON.stringify(each.value)}`,
          ]),
        ].join("\n");
        const document = parseToml(text, "f");
        const rows = text.split("\n");
        for (const each of lines) {
          const place = document.places.get(formatKeyPath([table, each.key]))!;
          expect(rows[place.key.line - 1]!.slice(place.key.column - 1)).toMatch(/^"/);
          expect(rows[place.key.line - 1]!.slice(place.key.column - 1).startsWith(JSON.stringify(each.key))).toBe(true);
          expect(rows[place.value.line - 1]!.slice(place.value.column - 1)).toBe(JSON.stringify(each.value));
          expect((document.value[table] as Record<string, unknown>)[each.key]).toBe(each.value);
        }
      }),
    );
  });
});
