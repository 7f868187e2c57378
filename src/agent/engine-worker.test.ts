import { describe, expect, it } from "vitest";
import { workerIds } from "./engine-worker.ts";

describe("workerIds()", () => {
  it("names node and model, tells equal ones apart, and an unknown model by its place", () => {
    const engine = (nodeId: string, name: string) => ({ nodeId, model: { name, tp: 1, extraArgs: [] } });
    expect(workerIds([engine("n", "m"), engine("n", "m"), engine("o", "m"), engine("n", "")])).toEqual([
      "n/m",
      "n/m#2",
      "o/m",
      "n/engine3",
    ]);
  });
});
