import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Arg, addressProblems, arg, composeArgs, parseUserArgs, userValue, userWrote } from "./args.ts";
import { SAMPLE_SLOT } from "./launch.case.ts";

const TP: Arg = { names: ["--tensor-parallel-size", "-tp", "--tp"], values: ["2"], why: "model.tp", source: "docs" };
const EVENTS: Arg = { names: ["--kv-events-config"], values: ['{"a":1}'], why: "events", source: "docs" };
const CHUNKED: Arg = { names: ["--enable-chunked-prefill"], values: [], why: "chunks", source: "docs" };

describe("composeArgs()", () => {
  it("composeArgs() renders flags in order, the user's after them", () => {
    const { argv } = composeArgs([TP, CHUNKED], ["--max-num-seqs", "8"]);
    expect(argv).toEqual(["--tensor-parallel-size", "2", "--enable-chunked-prefill", "--max-num-seqs", "8"]);
  });

  it.each([
    [["--tensor-parallel-size", "4"]],
    [["--tensor-parallel-size=4"]],
    [["--tensor_parallel_size", "4"]],
    [["--tensor_parallel_size=4"]],
    [["-tp", "4"]],
    [["--tp=4"]],
  ])("composeArgs() leaves out what the user wrote as %j", (written) => {
    const { argv, replaced } = composeArgs([TP, CHUNKED], written);
    expect(argv).toEqual(["--enable-chunked-prefill", ...written]);
    expect(replaced).toEqual([TP]);
  });

  it("composeArgs() keeps the last of several writings of one rendered flag", () => {
    const { argv } = composeArgs([TP], ["--tp", "4", "--max-num-seqs", "1", "-tp=8", "--max-num-seqs", "2"]);
    expect(argv).toEqual(["--max-num-seqs", "1", "-tp=8", "--max-num-seqs", "2"]);
  });

  it("composeArgs() takes dotted keys for the whole flag, and keeps all of them", () => {
    const written = ["--kv-events-config.publisher", "zmq", "--kv_events_config.topic", "t"];
    expect(composeArgs([EVENTS], written).argv).toEqual(written);
  });

  it("composeArgs() lets --no-X stand for a bare --X", () => {
    expect(composeArgs([CHUNKED], ["--no-enable-chunked-prefill"]).argv).toEqual(["--no-enable-chunked-prefill"]);
  });

  it("composeArgs() knows argparse's abbreviations only when asked to", () => {
    const written = ["--tensor-parallel", "4"];
    expect(composeArgs([TP], written).argv).toEqual(["--tensor-parallel-size", "2", ...written]);
    expect(composeArgs([TP], written, { abbreviations: true }).argv).toEqual(written);
  });

  it("composeArgs() lets a later switch undo an earlier one that it does not know", () => {
    expect(composeArgs([], ["--enable-x", "--y", "1", "--no-enable-x", "--y", "1"]).argv).toEqual([
      "--y",
      "1",
      "--no-enable-x",
      "--y",
      "1",
    ]);
    expect(composeArgs([], ["--x", "--x"]).argv).toEqual(["--x"]);
    expect(composeArgs([], ["--x=1", "--x=2"]).argv).toEqual(["--x=1", "--x=2"]);
  });

  it("composeArgs() says whose each flag is", () => {
    const { reasons } = composeArgs([TP, CHUNKED], ["--tp", "4"]);
    expect(reasons).toEqual([
      { arg: "--enable-chunked-prefill", why: "chunks", source: "docs" },
      { arg: "--tp", why: "Written by the user, in place of --tensor-parallel-size 2", source: "extra_args" },
    ]);
  });

  it("composeArgs() never loses a word of flags that it does not render", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.stringMatching(/^(--x-[a-z]{1,3}|-[1-9]|[a-z]{1,3})$/)), (words) => {
        expect(composeArgs([TP], words).argv.slice(2)).toEqual(words);
      }),
    );
  });
});

describe("reading what the user wrote", () => {
  it("parseUserArgs() takes negative numbers and JSON for values", () => {
    expect(parseUserArgs(["--n", "-1", "--c", '{"a":"--b"}']).map((f) => [f.name, f.values])).toEqual([
      ["--n", ["-1"]],
      ["--c", ['{"a":"--b"}']],
    ]);
  });

  it("userValue() gives the last value, an empty one for a bare flag, else undefined", () => {
    expect(userValue(["--port", "1", "--port=2"], ["--port"])).toBe("2");
    expect(userValue(["--trust-remote-code"], ["--trust-remote-code"])).toBe("");
    expect(userValue([], ["--port"])).toBeUndefined();
  });

  it("userWrote() sees dotted flags", () => {
    expect(userWrote(["--kv-transfer-config.kv_role", "kv_both"], ["--kv-transfer-config"])).toBe(true);
  });

  it("arg() leaves out undefined, renders true bare", () => {
    expect(arg("--x", undefined, "", "")).toEqual([]);
    expect(arg("--x", true, "w", "s")).toEqual([{ names: ["--x"], values: [], why: "w", source: "s" }]);
  });
});

describe("addressProblems()", () => {
  it("addressProblems() lists both contradictions", () => {
    const problems = addressProblems(["--port", "9", "--host", "10.1.1.1"], SAMPLE_SLOT, "engine.vllm.extra_args");
    expect(problems.map((p) => p.problem)).toEqual([
      "--port 9 in extra_args contradicts port 8000 of engine.url",
      "--host 10.1.1.1 in extra_args contradicts host 127.0.0.1 of engine.url",
    ]);
  });

  it("addressProblems() accepts a wildcard host and localhost for loopback", () => {
    for (const host of ["0.0.0.0", "::", "localhost", "127.0.0.1"]) {
      expect(addressProblems(["--host", host, "--port=8000"], SAMPLE_SLOT, "x")).toEqual([]);
    }
  });
});
