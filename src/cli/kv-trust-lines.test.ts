import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import { exactness, trustLines } from "./kv-trust-lines.ts";

const SOURCE: KvSourceStatus = {
  ...{ worker: workerId("n/0"), model: "m", type: "events", state: "live", detail: "", events: 0 },
  ...{ blocks: 0, blocksStored: 0, blocksRemoved: 0, gaps: 0, restarts: 0, malformed: 0, lastSequence: -1 },
  ...{ predictedTokens: 0, reportedTokens: 0, parity: "equal" },
};
const OFF = { state: "off" as const, checkedTokens: 0, skippedTokens: 0, sentTokens: 0, uncountedBlocks: 0 };

describe("trustLines", () => {
  it("trustLines() says alarms with their remedy, and once why nothing is checked", () => {
    const alarms = [{ code: "BLOCK_SIZE_WRONG" as const, message: "it is 32. Set 32", forMs: 200_000 }];
    const canonicity = { ...OFF, detail: "its tokenizer is not on this machine" };
    const sources = [
      { ...SOURCE, alarms, canonicity },
      { ...SOURCE, worker: workerId("n/1"), canonicity },
    ];
    expect(trustLines(sources)).toEqual([
      "n/0: BLOCK_SIZE_WRONG for 3 min: it is 32. Set 32",
      // It named no worker, so nobody knew whose tokenizer was meant.
      "n/0, n/1: generated tokens are not checked: its tokenizer is not on this machine",
    ]);
    expect(trustLines([SOURCE])).toEqual([]);
  });

  it("exactness() tells the last ten minutes", () => {
    const tokens = { predictedTokens: 1, reportedTokens: 1 };
    const window = { seconds: 600, requests: 20, exact: 20, inFlight: 0, unexplained: 0, ...tokens };
    expect(exactness({ ...SOURCE, truth: [window] })).toBe("20 of 20");
    const late = { ...window, exact: 16, inFlight: 3 };
    expect(exactness({ ...SOURCE, truth: [late] })).toBe("16 of 20, 3 in flight");
    expect(exactness({ ...SOURCE, truth: [{ ...late, unexplained: 1 }] })).toBe("16 of 20, 3 in flight, 1 unexplained");
    expect(exactness(SOURCE)).toBe("-");
  });
});
