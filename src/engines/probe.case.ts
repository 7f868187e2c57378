import { expect, it } from "vitest";
import type { EngineProbe, ProbeReply } from "./engine.ts";

/** What a healthy engine of this kind really answered. */
export interface ProbeSamples {
  readonly ready: ProbeReply;
  readonly metrics?: string;
  readonly models?: string;
}

/** Answers of something that is not this engine, or is broken. */
const HOSTILE = [
  "",
  "null",
  "[]",
  "{}",
  "{",
  "<html>",
  '{"data":[null,{"id":7}]}',
  '{"data":"x"}',
  "\u0000\uffff",
  "NaN 1 2",
];

const CASES = {
  "takes a refused connection as loading": (p) => expect(p.ready.verdict({ status: 0, body: "" })).toBe("loading"),
  "takes the real answer as ready": (p, s) => expect(p.ready.verdict(s.ready)).toBe("ready"),
  "is not ready on 503": (p) => expect(p.ready.verdict({ status: 503, body: "" })).not.toBe("ready"),
  "is not ready on 500": (p) => expect(p.ready.verdict({ status: 500, body: "" })).not.toBe("ready"),
  "reads a load between 0 and 1 from real metrics": (p, s) => {
    const load = p.metrics?.parse(s.metrics ?? "");
    expect(load?.running ?? load?.waiting ?? load?.kvUsage).toBeTypeOf("number");
    expect(load?.kvUsage ?? 0).toBeGreaterThanOrEqual(0);
    expect(load?.kvUsage ?? 0).toBeLessThanOrEqual(1);
  },
  "reads model names from the real list": (p, s) => {
    const models = p.models?.parse(s.models ?? "") ?? [];
    expect(models.length).toBeGreaterThan(0);
    expect(models.every((m) => m.id !== "")).toBe(true);
  },
  "never throws on an answer it does not understand": (p) => {
    for (const body of HOSTILE) {
      p.ready.verdict({ status: 200, body });
      p.metrics?.parse(body);
      p.template?.parse(body);
      p.version?.parse(body);
      p.blockTokens?.parse(body);
      expect(p.models?.parse(body).every((m) => typeof m.id === "string") ?? true).toBe(true);
      expect(Array.isArray(p.kvSources?.parse(body, "127.0.0.1") ?? [])).toBe(true);
    }
  },
} as const satisfies Record<string, (probe: EngineProbe, samples: ProbeSamples) => void>;

export type ProbeCase = keyof typeof CASES;

/** Run the rules of an engine's probe on what a real engine answered. Skips as in `runLaunchCases()`. */
export function runProbeCases(
  name: string,
  probe: EngineProbe,
  samples: ProbeSamples,
  skip: Partial<Record<ProbeCase, string>> = {},
): void {
  for (const [title, check] of Object.entries(CASES)) {
    const reason = skip[title as ProbeCase];
    it(`${name} probe ${title}${reason === undefined ? "" : ` (not: ${reason})`}`, () => {
      if (reason === undefined) return void check(probe, samples);
      expect(() => check(probe, samples), `passes now: remove the skip "${reason}"`).toThrow();
    });
  }
}
