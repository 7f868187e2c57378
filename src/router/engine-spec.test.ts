import { describe, expect, it } from "vitest";
import { parseEngineSpec } from "./engine-spec.ts";

describe("parseEngineSpec()", () => {
  it("reads an address alone, with or without the base path of OpenAI clients", () => {
    for (const text of ["http://h:8000", "http://h:8000/", "http://h:8000/v1"]) {
      expect(parseEngineSpec(text)).toEqual({ url: "http://h:8000", tokenizer: {} });
    }
  });

  it("reads all settings", () => {
    const text = "http://h:1,kind=vllm,model=m,events=tcp://h:5557,replay=tcp://h:5558,tokenizer=/models/m";
    expect(parseEngineSpec(text)).toEqual({
      url: "http://h:1",
      kind: "vllm",
      model: "m",
      kv: {
        type: "events",
        endpoint: "tcp://h:5557",
        replay: "tcp://h:5558",
        topic: "",
        dpRank: 0,
        origin: "configuration",
      },
      tokenizer: { dir: "/models/m" },
    });
    expect(parseEngineSpec("http://h:1,tokenizer=bytes").tokenizer).toEqual({ bytes: true });
    expect(parseEngineSpec("http://h:1,tokenizer=/m/x.gguf").tokenizer).toEqual({ gguf: "/m/x.gguf" });
  });

  it.each([
    ["localhost:8000", /no address of an engine/],
    ["http://h:1/api", /it has the path "\/api"/],
    ["http://h:1,kind=tgi", /"tgi" is no engine kind\. Use one of vllm, sglang/],
    ["http://h:1,colour=red", /"colour=red" is no setting of it/],
    ["http://h:1,replay=tcp://h:2", /replay without events/],
    ["http://h:1,events=tcp://*:2", /no endpoint to connect to/],
  ])("refuses %s with what would be right", (text, message) => {
    expect(() => parseEngineSpec(text)).toThrow(message);
  });
});
