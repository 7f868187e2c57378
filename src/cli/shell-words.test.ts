import { describe, expect, it } from "vitest";
import { hideSecrets, shellWord } from "./shell-words.ts";

describe("shellWord()", () => {
  it.each([
    ["--host", "--host"],
    ["a b", "'a b'"],
    ['{"a":1}', `'{"a":1}'`],
    ["it's", `'it'\\''s'`],
    ["", "''"],
    ["$HOME", "'$HOME'"],
  ])("shellWord() writes %j as %s", (word, quoted) => {
    expect(shellWord(word)).toBe(quoted);
  });
});

describe("hideSecrets()", () => {
  it("hideSecrets() hides every value of a secret flag, in either spelling, and nothing else", () => {
    expect(hideSecrets(["vllm", "--api-key", "a", "b", "--port", "1", "--api_key=c", "--hf-token", "d"])).toEqual([
      "vllm",
      "--api-key",
      "<secret>",
      "<secret>",
      "--port",
      "1",
      "--api_key=<secret>",
      "--hf-token",
      "<secret>",
    ]);
    // `env HF_TOKEN=x vllm` of a command template was printed.
    expect(hideSecrets(["env", "HF_TOKEN=t", "A=b", "run", "--env=DB_PASSWORD=p", "-e", "X_KEY=k"])).toEqual([
      "env",
      "HF_TOKEN=<secret>",
      "A=b",
      "run",
      "--env=DB_PASSWORD=<secret>",
      "-e",
      "X_KEY=<secret>",
    ]);
    expect(hideSecrets(["--max-num-batched-tokens", "5"])).toEqual(["--max-num-batched-tokens", "5"]);
  });
});
