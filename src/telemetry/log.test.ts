import { describe, expect, it } from "vitest";
import { CgnError } from "../core/errors.ts";
import { createLog, type LogOptions } from "./log.ts";

function capture(options: Partial<LogOptions> = {}) {
  const lines: string[] = [];
  const log = createLog({ format: "json", write: (line) => void lines.push(line), ...options });
  return { log, lines, objects: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

describe("createLog()", () => {
  it("writes one JSON object a line with level, time, message and fields", () => {
    const { log, objects } = capture();
    log.child({ worker: "n/e0" }).warn("engine is slow", { ms: 12, gone: undefined });
    log.debug("not written");
    expect(objects()).toEqual([
      { level: "warn", time: expect.stringMatching(/^\d{4}-.*Z$/), worker: "n/e0", ms: 12, msg: "engine is slow" },
    ]);
  });

  it("writes one readable line in pretty form", () => {
    const { log, lines } = capture({ format: "pretty" });
    log.info("engine ready", { worker: "n/e0", note: "two words", ms: 3 });
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d info {2}engine ready worker=n\/e0 note="two words" ms=3\n$/);
  });

  it("hides prompts and secrets by name and by shape", () => {
    const { log, lines } = capture();
    const key = `cgn-${"0a".repeat(16)}`;
    log.info(`key ${key} from http://me:hunter2@host/`, {
      prompt: "very private words",
      api_key: "k1k1k1",
      headers: { authorization: "Bearer abcdefghijkl" },
      tail: "got Bearer abcdefghijkl and --api-key zzz",
      promptTokens: 7,
    });
    expect(lines[0]).not.toMatch(/very private|k1k1k1|hunter2|abcdefghijkl|zzz|0a0a0a/);
    expect(lines[0]).toContain('"promptTokens":7');
  });

  it("writes errors as data, with a stack only for our own mistakes", () => {
    const { log, objects } = capture();
    log.error("failed", { err: new CgnError("PORT_IN_USE", "Cannot listen: taken", {}) });
    log.error("failed", { err: new TypeError("x") });
    expect(objects()[0]?.["err"]).toEqual({ message: "Cannot listen: taken", code: "PORT_IN_USE" });
    expect(objects()[1]?.["err"]).toMatchObject({ message: "x", stack: expect.stringContaining("TypeError") });
  });

  it("once() speaks the first time only, across children", () => {
    const { log, lines } = capture();
    log.once("k").warn("a");
    log.child({ n: 1 }).once("k").warn("b");
    log.once("other").warn("c");
    expect(lines).toHaveLength(2);
  });
});
