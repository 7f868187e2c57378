import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readSglangArgv } from "./sglang-argv.ts";
import { readVllmArgv } from "./vllm-argv.ts";

interface Case {
  readonly id: string;
  readonly accepted: boolean;
  readonly argv: readonly string[];
}

const cases = (name: string): Case[] =>
  readFileSync(new URL(`../testdata/${name}/argv.jsonl`, import.meta.url), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

const accepts = (read: () => unknown): boolean => {
  try {
    read();
    return true;
  } catch (e) {
    expect(e).toMatchObject({ code: "BAD_INVOCATION" });
    return false;
  }
};

describe("the engines' command lines", () => {
  it("readVllmArgv() takes and refuses what vLLM 0.32.0's parser does", () => {
    const wrong = cases("vllm").filter((c) => accepts(() => readVllmArgv(c.argv, {})) !== c.accepted);
    expect(wrong.map((c) => c.id)).toEqual([]);
  });

  it("readSglangArgv() takes and refuses what SGLang 0.5.23's parser and resolver do", () => {
    const wrong = cases("sglang").filter((c) => accepts(() => readSglangArgv(c.argv, {})) !== c.accepted);
    expect(wrong.map((c) => c.id)).toEqual([]);
  });

  it("readVllmArgv() understands every spelling argparse does", () => {
    const options = readVllmArgv(
      [
        ...["serve", "org/model", "--port=8123", "--served_model_name", "a", "b", "--no-enable-prefix-caching"],
        ...["--max-model-len", "2k", "--tensor-parallel", "2", "--block-size", "32", "--port", "8124"],
      ],
      {},
    );
    expect(options).toMatchObject({ models: ["a", "b"], port: 8124, maxModelTokens: 2000, modelPath: "org/model" });
    expect(options.limits).toMatchObject({ blockTokens: 32, prefixCaching: false });
  });

  it("readVllmArgv() refuses in argparse's words", () => {
    const said = (argv: string[]) => {
      try {
        readVllmArgv(["serve", "m", ...argv], {});
      } catch (e) {
        return (e as Error).message;
      }
      return "";
    };
    expect(said(["--foo", "1", "--port", "1"])).toBe("vllm serve: error: unrecognized arguments: --foo 1");
    expect(said(["--port"])).toBe("vllm serve: error: argument --port: expected one argument");
    expect(said(["--port", "x"])).toBe("vllm serve: error: argument --port: invalid int value: 'x'");
    expect(said(["--max-num", "3"])).toContain("ambiguous option: --max-num could match --max-num-seqs");
    expect(said(["--enable-lora=yes"])).toBe(
      "vllm serve: error: argument --enable-lora: ignored explicit argument 'yes'",
    );
    expect(said(["--max-model-len", "4096", "--num-gpu-blocks-override", "9"])).toContain(
      "larger than the KV cache (128 tokens",
    );
    expect(said(["--sim-fault", "melt"])).toContain("kind is one of crash, engine-crash, hang");
  });

  it("readSglangArgv() takes the module form, the subcommand and the flags alone", () => {
    for (const front of [["-m", "sglang.launch_server"], ["serve"], ["-m", "sglang", "serve"], []]) {
      expect(readSglangArgv([...front, "--model-path", "m"], {}).models).toEqual(["m"]);
    }
    expect(() => readSglangArgv([], {})).toThrow("--model-path");
  });
});
