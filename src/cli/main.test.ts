import { describe, expect, it } from "vitest";
import { isStop } from "./main.ts";

const stopped = (reason: unknown): AbortSignal => {
  const controller = new AbortController();
  controller.abort(reason);
  return controller.signal;
};

describe("isStop()", () => {
  it("knows what failed because a stop was asked for", async () => {
    const signal = stopped("SIGINT");
    const rejected = await fetch("http://127.0.0.1:9/", { signal }).catch((e: unknown) => e);
    expect(isStop(rejected, signal)).toBe(true);
    expect(isStop(new Error("no answer", { cause: rejected }), signal)).toBe(true);
  });

  it("takes no other failure for one, nor one before a stop", () => {
    expect(isStop(new Error("the disk is full"), stopped("SIGINT"))).toBe(false);
    expect(isStop("SIGINT", new AbortController().signal)).toBe(false);
  });
});
