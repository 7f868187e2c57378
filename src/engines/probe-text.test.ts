import { describe, expect, it } from "vitest";
import { metricMax, metricSum, metricValues, readJson, readModelList, servedNames } from "./probe-text.ts";

describe("readModelList()", () => {
  it("reads ids and both spellings of the context limit", () => {
    const body = '{"data":[{"id":"a","max_model_len":8192},{"id":"b","meta":{"n_ctx":2048}},{"id":"c"}]}';
    expect(readModelList(body)).toEqual([
      { id: "a", maxModelTokens: 8192 },
      { id: "b", maxModelTokens: 2048 },
      { id: "c" },
    ]);
  });
  it("tells the base model of an adapter, as vLLM and SGLang list it", () => {
    const body = '{"data":[{"id":"base","root":"base","parent":null},{"id":"tiny","root":"/m/tiny","parent":"base"}]}';
    expect(readModelList(body)).toEqual([{ id: "base" }, { id: "tiny", parent: "base" }]);
  });
  it("servedNames() keeps the configured name and adds adapters", () => {
    const served = [{ id: "base" }, { id: "tiny", parent: "base" }];
    expect(servedNames(served, [])).toEqual({ models: ["base", "tiny"], adapters: ["tiny"] });
    expect(servedNames(served, ["m"])).toEqual({ models: ["m", "tiny"], adapters: ["tiny"] });
    expect(servedNames([{ id: "base" }], [])).toEqual({ models: ["base"] });
  });
  it("gives none for what is no list", () => {
    for (const body of ["", "null", "[]", '{"data":{}}', '{"data":[null,1,{"id":""},{"id":7}]}']) {
      expect(readModelList(body)).toEqual([]);
    }
  });
});

describe("metricValues()", () => {
  const text = ["# TYPE x gauge", 'x{a="1 2",b="}"} 3.0', "x 4 1700000000", "x_total 9", "x NaN", "x"].join("\n");
  it("reads every label set and no other name", () => {
    expect(metricValues(text, "x")).toEqual([3, 4]);
    expect(metricSum(text, "x")).toBe(7);
    expect(metricMax(text, "x")).toBe(4);
  });
  it("gives nothing for a missing metric", () => {
    expect(metricValues(text, "y")).toEqual([]);
    expect(metricSum(text, "y")).toBeUndefined();
    expect(metricMax(text, "y")).toBeUndefined();
  });
});

describe("readJson()", () => {
  it("gives undefined for text that is no JSON", () => {
    expect(readJson("{")).toBeUndefined();
    expect(readJson("null")).toBeNull();
  });
});
