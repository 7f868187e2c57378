import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { oursFor, promptHash } from "../conformance/parity/compare.ts";
import { randomBodies } from "../conformance/parity/random-bodies.ts";
import { vllm } from "../src/engines/vllm/vllm.ts";

interface Recording {
  readonly bodies: number;
  readonly seed: number;
  /** Local date at which it was made: some templates print it. */
  readonly day: readonly [number, number, number];
  /** Names of the prompts (`promptHash()`), or `-` for a body that vLLM refused; in the order of the bodies. */
  readonly prompts: Readonly<Record<string, string>>;
}

const read = (path: string): string => readFileSync(new URL(`fixtures/${path}`, import.meta.url), "utf8");
const { bodies, seed, day, prompts } = JSON.parse(read("templates/vllm.json")) as Recording;
const cases = randomBodies(bodies, seed);

function oursOf(template: string) {
  const path = template === "smollm2" ? "models/smollm2/chat_template.jinja" : `templates/${template}.jinja`;
  return oursFor({
    engine: vllm,
    template: read(path),
    told: undefined,
    bosToken: "<|im_start|>",
    eosToken: "<|im_end|>",
    specialTokens: { unk_token: "<|endoftext|>", pad_token: "<|im_end|>" },
    now: new Date(day[0], day[1] - 1, day[2], 12),
  });
}

describe("prompts as vLLM 0.32 made them", () => {
  it.each(Object.entries(prompts))("%s: bodies that it took have its prompt", (template, recorded) => {
    const ours = oursOf(template);
    const hashes = recorded.split(" ");
    expect(hashes.length).toBe(cases.length);
    const wrong = hashes.flatMap((hash, i) => {
      // Half of them: `npm run parity` takes all.
      if (i % 2 === 1) return [];
      const mine = ours.fast(cases[i]!);
      const same = hash === "-" || ("text" in mine && promptHash(mine.text) === hash);
      return same ? [] : [{ i, body: cases[i], mine }];
    });
    expect(wrong).toEqual([]);
  });
});

describe("compiled templates", () => {
  it.each(Object.keys(prompts))("%s: give what the interpreter gives, from the first time to the fifth", (template) => {
    const ours = oursOf(template);
    for (const one of randomBodies(24, seed + 1)) {
      const whole = ours.whole(one);
      for (let n = 0; n < 5; n++) expect(ours.fast(one)).toEqual(whole);
    }
  });
});
