import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCgnError } from "../../core/errors.ts";
import { sampleInput } from "../launch.case.ts";
import { sglang } from "./sglang.ts";
import { checkSglangArgs } from "./sglang-checks.ts";
import { sglangSchema } from "./sglang-options.ts";
import answers from "./testdata/parser_answers.json" with { type: "json" };

/** Refusals that cannot be known from the words alone. */
const NOT_KNOWABLE: Readonly<Record<string, string>> = {
  "ib-device with mooncake": "depends on the host's InfiniBand drivers",
  "page size with attention-backend trtllm_mla": "depends on the GPU",
  "page size with attention-backend cutlass_mla": "a choice that changes with each version; SGLang says it at once",
  "context-length 32k > model": "depends on the model's config.json",
  "no model": "cgn always renders --model-path",
  "positional model": "cgn always renders --model-path",
  "missing model dir": "depends on the disk; the agent looks before it starts",
};

/** What SGLang 0.5.23 takes although it cannot work or does nothing. */
const ACCEPTED_BUT_WRONG: readonly string[] = [
  "radix flag on prefill",
  "radix flag on both",
  "hicache L3=dynamic",
  "hicache ratio 0.5",
  "hicache ratio -1",
  "bootstrap port 0",
  "bootstrap port 70000",
  "kv-events vllm style key",
  "mem-fraction 1.5",
  "mem-fraction 0",
  "port 0",
  "port 99999",
];

describe("checkSglangArgs() against the real parser's 141 answers", () => {
  it("finds a problem in what the parser refuses, and none in what it accepts", () => {
    const wrong = answers.filter(({ name, argv, accepted }) => {
      const expectProblem = ACCEPTED_BUT_WRONG.includes(name) || (!accepted && !(name in NOT_KNOWABLE));
      return checkSglangArgs(argv).length > 0 !== expectProblem;
    });
    expect(wrong.map(({ name, argv }) => [name, checkSglangArgs(argv)])).toEqual([]);
    expect(answers).toHaveLength(141);
  });

  it("refuses through the options of the section what the parser refuses", () => {
    for (const { name, argv, accepted } of answers) {
      if (accepted || name in NOT_KNOWABLE) continue;
      const path = argv.indexOf("--model-path");
      const extra = argv.filter(
        (_, i) => i !== path && i !== path + 1 && argv[i] !== "--port" && argv[i - 1] !== "--port",
      );
      expect(refuses(extra), name).toBe(true);
    }
  });
});

describe("checkSglangArgs()", () => {
  it("names a remedy for each problem, and never throws, on any words", () => {
    const flag = fc.constantFrom(...new Set(answers.flatMap((a) => a.argv.filter((word) => word.startsWith("--")))));
    fc.assert(
      fc.property(fc.array(fc.oneof(flag, fc.string(), fc.integer().map(String), fc.json())), (argv) => {
        for (const found of checkSglangArgs(argv)) {
          expect(found.flag).toMatch(/^--/);
          expect(found.problem).not.toBe("");
          expect(found.remedy).not.toBe("");
        }
      }),
    );
  });
});

function refuses(extra: readonly string[]): boolean {
  try {
    sglang.launch(sampleInput(sglangSchema.parse({ extra_args: extra })));
    return false;
  } catch (e) {
    return isCgnError(e, "CONFIG_INVALID");
  }
}
