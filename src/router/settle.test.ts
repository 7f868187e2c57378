import { describe, expect, it } from "vitest";
import { noFacts } from "./answer.ts";
import { outcomeOf } from "./settle.ts";

describe("outcomeOf()", () => {
  // Engines' answers to bad requests were counted as the engines' failures, since their bodies have an `error`.
  it("blames the client for 4xx and 501, the engine for 5xx and an error within a stream", () => {
    const failed = { ...noFacts(), error: "mine" };
    for (const status of [400, 404, 422, 429, 501]) {
      expect(outcomeOf({ type: "complete", status } as never, failed), String(status)).toBe("client_error");
    }
    for (const status of [200, 500, 503]) {
      expect(outcomeOf({ type: "complete", status } as never, failed), String(status)).toBe("upstream_error");
    }
    expect(outcomeOf({ type: "complete", status: 200 } as never, noFacts())).toBe("ok");
  });
});
