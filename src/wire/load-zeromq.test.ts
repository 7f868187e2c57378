import { describe, expect, it } from "vitest";
import { loadZeroMq, zeroMqProblem } from "./load-zeromq.ts";

describe("loadZeroMq()", () => {
  it("says what is missing and what to do where it cannot be loaded, and tries again the next time", () => {
    const missing = () => {
      throw new Error("Cannot find module 'zeromq'\nRequire stack:");
    };
    expect(() => loadZeroMq(missing)).toThrow(
      "Cannot use KV events: the ZeroMQ binding is missing (Cannot find module 'zeromq'). Install",
    );
    expect(zeroMqProblem(() => loadZeroMq(missing))).toContain("the ZeroMQ binding is missing");
    expect(loadZeroMq().Subscriber).toBeTypeOf("function");
    expect(zeroMqProblem()).toBeUndefined();
  });
});
