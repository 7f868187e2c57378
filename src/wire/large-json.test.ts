import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readLargeObject, textOf } from "./large-json.ts";

const LISTS = new Set(["ids"]);
const read = (text: string) => readLargeObject(Buffer.from(text), LISTS);

describe("readLargeObject", () => {
  it("readLargeObject() reads what JSON.stringify writes, with white space anywhere between", async () => {
    const list = fc.array(fc.nat({ max: 0xffffffff }));
    const objects = fc.dictionary(fc.string(), fc.jsonValue());
    await fc.assert(
      fc.asyncProperty(objects, list, fc.constantFrom(undefined, 1, "\t", "\r\n "), async (others, ids, space) => {
        const object: Record<string, unknown> = { ...others, ids };
        const members = await read(JSON.stringify(object, undefined, space));
        const seen = [...members].map(([name, value]) => [
          name,
          Buffer.isBuffer(value) ? JSON.parse(value.toString("utf8")) : [...value],
        ]);
        expect(seen).toEqual(Object.entries(JSON.parse(JSON.stringify(object))));
      }),
    );
  });

  it("readLargeObject() never fails otherwise than with words, whatever it is given", async () => {
    const piece = fc.constantFrom("{", "}", "[", "]", ":", ",", '"', "\\", '"ids"', "1", "-", "4294967296", " ", "x");
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece).map((pieces) => pieces.join("")),
        async (text) => {
          const said = await read(`{${text}`).then(
            () => "",
            (error: Error) => error.message,
          );
          expect(said).toMatch(/^(Cannot read the request: .*\. Send .*)?$/s);
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    ["-1", "ids[0] is no whole number"],
    ["1.5", "ids[0] is no whole number"],
    ["7,4294967296", "ids[1] is no whole number"],
    ["00000000001", "ids[0] is no whole number"],
    ["1e3", "ids[0] is no whole number"],
    ['"1"', "ids[0] is no whole number"],
    ["1,,2", "ids[1] is no whole number"],
    ["1 2", "it is no JSON at byte 10"],
    ["1,2", ""],
    [" ", ""],
  ])("readLargeObject() says what is wrong with ids [%s]", async (ids, what) => {
    const said = await read(`{"ids":[${ids}]}`).then(
      () => "",
      (error: Error) => error.message,
    );
    expect(said).toContain(what);
    expect(said === "").toBe(what === "");
  });

  it("readLargeObject() lets others have their turn", async () => {
    let turns = 0;
    let reads = true;
    const turn = () => {
      turns++;
      if (reads) setImmediate(turn);
    };
    setImmediate(turn);
    const members = await read(JSON.stringify({ ids: new Array(500_000).fill(12_345) }));
    reads = false;
    expect(members.get("ids")).toHaveLength(500_000);
    expect(turns).toBeGreaterThan(15);
  });

  it("textOf() is undefined for what is no text", async () => {
    const members = await read('{"a":"\\u0041\\"","b":1,"ids":[]}');
    expect([...members.values()].map(textOf)).toEqual(['A"', undefined, undefined]);
  });
});
