import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { DEFAULT_ANSWERS } from "./answer-schema.ts";
import { type LoadedConfig, loadConfig } from "./load.ts";
import { SAMPLE_HOST } from "./sample-host.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-answers-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function load(toml: string): LoadedConfig {
  const path = join(dir, "c.toml");
  writeFileSync(path, toml);
  return loadConfig({ path, env: {}, cwd: dir, host: SAMPLE_HOST });
}
const ENGINE = '[engine]\nkind = "llama_cpp"\nmodel = "a"\n';

describe("limits of answers, in loadSettings()", () => {
  it("without a word are the defaults, for all models", () => {
    const { router } = load(ENGINE).settings;
    expect([router.answers, router.modelAnswers]).toEqual([DEFAULT_ANSWERS, {}]);
  });

  it("of a model begin with the router's", () => {
    const toml = `[router]\nstall_timeout = "20s"\nanswer_timeout_ms = 5000\n${ENGINE}[models.a]\npath = "/a.gguf"\nfirst_token_timeout = "0s"\ncontinue_streams = true\n[models.b]\npath = "/b.gguf"\n`;
    const { router } = load(toml).settings;
    const answers = { firstTokenMs: 600_000, answerMs: 5_000, stallMs: 20_000, continueStreams: false };
    expect(router.answers).toEqual(answers);
    expect(router.modelAnswers).toEqual({ a: { ...answers, firstTokenMs: 0, continueStreams: true } });
  });

  it("that are no duration are told with their place", () => {
    const { problems } = load(`[router]\nstall_timeout = "soon"\n${ENGINE}`);
    expect(problems[0]).toMatchObject({ path: "router.stall_timeout", line: 2, severity: "error" });
  });
});
