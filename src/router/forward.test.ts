import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { Retries } from "./forward.ts";

const A = workerId("a/e#0");
const B = workerId("b/e#0");
const C = workerId("c/e#0");

const failed = (kind: UpstreamFailure["kind"], phase: UpstreamFailure["phase"]) =>
  ({ type: "retry", failure: { kind, phase, message: "it failed" } }) as const;

describe("Retries", () => {
  it("next() gives up once two workers died while they worked on the request", () => {
    const retries = new Retries();
    expect(retries.next(A, failed("reset", "body"), 2)).toBe("other");
    expect(retries.next(B, failed("reset", "body"), 1)).toBeUndefined();
  });

  it("next() asks a third worker when the first two were taken out of routing", () => {
    const retries = new Retries();
    expect(retries.next(A, failed("lost", "head"), 2)).toBe("other");
    expect(retries.next(B, failed("lost", "body"), 1)).toBe("other");
    expect([...retries.tried]).toEqual([A, B]);
    expect(retries.next(C, failed("lost", "head"), 1)).toBeUndefined();
  });

  it("next() asks the same worker once more when its connection was cut before any answer", () => {
    const retries = new Retries();
    expect(retries.next(A, failed("reset", "head"), 1)).toBe("same");
    expect(retries.next(A, failed("reset", "head"), 1)).toBe("other");
  });
});
