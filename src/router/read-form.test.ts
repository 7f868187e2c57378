import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findFormModel } from "./read-form.ts";

const TYPE = "multipart/form-data; boundary=xyz";

type Part = readonly [head: string, value: Buffer | string];

const form = (...parts: readonly Part[]): Buffer => formOf(parts);

function formOf(parts: readonly Part[]): Buffer {
  const pieces = parts.flatMap(([head, value]) => [
    Buffer.from(`--xyz\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
    Buffer.from(value),
    Buffer.from("\r\n"),
  ]);
  return Buffer.concat([...pieces, Buffer.from("--xyz--\r\n")]);
}

const FILE = 'name="file"; filename="a.wav"\r\nContent-Type: audio/wav';

describe("findFormModel()", () => {
  it("finds the field before, between and after files of any size", () => {
    const big = Buffer.alloc(300_000, "\r\n-");
    for (const parts of [
      [
        ['name="model"', "m"],
        [FILE, big],
      ],
      [
        [FILE, big],
        ['name="model"', "m"],
        [FILE, big],
      ],
      [
        [FILE, big],
        ['name="model"', "m"],
      ],
    ] as const) {
      const body = form(...parts);
      const found = findFormModel(body, TYPE)!;
      expect(found.model).toBe("m");
      expect(body.toString("utf8", found.start, found.end)).toBe("m");
    }
  });

  it("takes nothing in a file for a field", () => {
    const inner = '\r\nContent-Disposition: form-data; name="model"\r\n\r\nevil\r\n--xy';
    expect(findFormModel(form([FILE, inner], ['name="model"', "good"]), TYPE)?.model).toBe("good");
    expect(findFormModel(form([FILE, inner]), TYPE)).toBeUndefined();
    expect(findFormModel(form(['name="model"; filename="model"', "evil"]), TYPE)).toBeUndefined();
  });

  it("refuses a form with two of them", () => {
    expect(() => findFormModel(form(['name="model"', "a"], ['name="model"', "b"]), TYPE)).toThrow(/"model" twice/);
  });

  it.each([
    ["no boundary", "multipart/form-data", form(['name="model"', "m"])],
    ["another boundary", "multipart/form-data; boundary=abc", form(['name="model"', "m"])],
    ["a body that ends in a head", TYPE, Buffer.from('--xyz\r\nContent-Disposition: form-data; name="model"\r\n')],
    [
      "a body that ends in a value",
      TYPE,
      Buffer.from('--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nm'),
    ],
    ["a model as long as a file", TYPE, form(['name="model"', "m".repeat(5_000)])],
  ])("finds none with %s", (_, type, body) => {
    expect(findFormModel(body, type)).toBeUndefined();
  });

  it.each(['multipart/form-data; boundary="xyz"', "Multipart/Form-Data; charset=utf-8; Boundary=xyz"])(
    "reads %s",
    (type) => {
      expect(findFormModel(form(['name="model"', "m"]), type)?.model).toBe("m");
    },
  );

  it("ends, and finds only what stands there, whatever the bytes", () => {
    const piece = fc.constantFrom(
      "--xyz",
      "\r\n",
      "\r\n\r\n",
      "--",
      'Content-Disposition: form-data; name="model"',
      "m",
      "\0",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        const body = Buffer.from(pieces.join(""));
        try {
          const found = findFormModel(body, TYPE);
          if (found !== undefined) expect(body.toString("utf8", found.start, found.end)).toBe(found.model);
        } catch (e) {
          expect((e as Error).message).toContain("twice");
        }
      }),
    );
  });

  it("gives up after as many parts as engines read", () => {
    const many = Array.from({ length: 200_000 }, () => ['name="x"', ""] as const);
    expect(findFormModel(formOf([...many, ['name="model"', "m"]]), TYPE)).toBeUndefined();
  });
});
