import type { EngineProfile } from "../sim/model/profile.ts";
import { stepDurationMs } from "../sim/model/profile.ts";
import { listProfiles } from "../sim/profiles/find-profile.ts";
import type { Command } from "./command.ts";

/** What a profile comes to, in figures that people compare. */
function figures(profile: EngineProfile): {
  readonly prefillPerS: number;
  readonly aloneMs: number;
  readonly manyMs: number;
} {
  const prompt = { prefillTokens: 2048, prefillPairs: 2048 ** 2 / 2, decodeSequences: 0, contextTokens: 0 };
  const answers = (count: number) => ({ prefillTokens: 0, decodeSequences: count, contextTokens: count * 1024 });
  return {
    prefillPerS: 2_048_000 / stepDurationMs(profile, prompt),
    aloneMs: stepDurationMs(profile, answers(1)),
    manyMs: stepDurationMs(profile, answers(32)),
  };
}

/** `cgn sim profiles`: how fast simulated engines can be, and who says so. */
export const simProfilesCommand: Command = {
  name: "sim profiles",
  about: "list the profiles of simulated engines, with their sources and how far they may be off",
  examples: ["cgn sim profiles", "cgn sim profiles h100", "cgn sim profiles --json"],
  positionals: [{ name: "WORDS", about: "only those with all of these words", required: false, variadic: true }],
  options: { json: { type: "boolean", about: "print them as JSON, as files have them" } },
  async run({ options, positionals }, cli) {
    const words = positionals.map((word) => word.toLowerCase());
    const found = listProfiles().filter(({ name, about, source, kind }) =>
      words.every((word) => `${name} ${about ?? ""} ${source} ${kind ?? ""}`.toLowerCase().includes(word)),
    );
    if (options["json"] === true) {
      cli.out(JSON.stringify(found, undefined, 2));
      return 0;
    }
    if (found.length === 0) cli.err(`No profile has ${words.join(" and ")}. cgn sim profiles shows all`);
    for (const profile of found) cli.out(describe(profile));
    return found.length === 0 ? 2 : 0;
  },
};

function describe(profile: EngineProfile): string {
  const { name, about, kind = "assumed", errorPercent, source } = profile;
  const { prefillPerS, aloneMs, manyMs } = figures(profile);
  const off = errorPercent === undefined ? "" : `, may be off by ${errorPercent} %`;
  const speed = Number.isFinite(prefillPerS)
    ? `prompts ${Math.round(prefillPerS).toLocaleString("en")} tokens/s, a token ${short(aloneMs)} ms alone, ${short(manyMs)} ms among 32`
    : "no time at all";
  return [
    `${name}  (${kind}${off})`,
    ...(about === undefined ? [] : [`    ${about}`]),
    `    ${speed}`,
    `    ${source}`,
  ].join("\n");
}

function short(ms: number): string {
  return ms.toPrecision(3);
}
