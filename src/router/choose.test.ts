import { describe, expect, it } from "vitest";
import type { CgnError } from "../core/errors.ts";
import type { Candidate } from "../routing/decision.ts";
import { type Chooser, type Proposal, requireSlo } from "./choose.ts";

/** A leg that was chosen among workers with these terms; the first one won. */
function leg(...workers: readonly { readonly waitMs?: number; readonly ownMs: number }[]): Proposal {
  const candidates = workers.map(({ waitMs = 0, ownMs }) => {
    const terms = { baseMs: 20, waitMs, fetchMs: 0, prefillMs: ownMs - 20, interferenceMs: 0 };
    return { ttftMs: waitMs + ownMs, terms } as Candidate;
  });
  return { decision: { index: 0, candidates }, ttftMs: candidates[0]!.ttftMs } as unknown as Proposal;
}

function refusal(ttftSloMs: number | undefined, ...way: readonly Proposal[]): CgnError | undefined {
  try {
    requireSlo({ ttftSloMs } as Chooser, "m", way);
    return undefined;
  } catch (e) {
    return e as CgnError;
  }
}

describe("requireSlo()", () => {
  it("lets in what keeps the limit, and everything where none is written", () => {
    expect(refusal(100, leg({ waitMs: 50, ownMs: 50 }))).toBeUndefined();
    expect(refusal(undefined, leg({ ownMs: 5_000 }))).toBeUndefined();
  });

  it("says when the queue will have drained so far", () => {
    const refused = refusal(100, leg({ waitMs: 2_050, ownMs: 60 }));
    expect(refused?.details).toEqual({ retryAfterS: 3, reason: "predicted TTFT" });
    expect(refused?.message).toMatch(/is predicted after 2110 ms, the limit is 100 ms .*Try again later/);
  });

  it("promises nothing where the prompt alone takes longer", () => {
    const refused = refusal(100, leg({ ownMs: 8_310 }));
    expect(refused?.details).toEqual({ reason: "predicted TTFT" });
    expect(refused?.message).toMatch(/8310 ms where nothing else runs.*Send a shorter prompt, or raise the limit$/);
    expect(refusal(100, leg({ waitMs: 900, ownMs: 101 }))?.details).toEqual({ reason: "predicted TTFT" });
  });

  it("counts another worker, and both legs of a split request", () => {
    const busy = leg({ waitMs: 500, ownMs: 200 }, { waitMs: 4_000, ownMs: 50 });
    expect(refusal(100, busy)?.details).toMatchObject({ retryAfterS: 1 });
    expect(refusal(100, leg({ ownMs: 60 }), leg({ ownMs: 50 }))?.details).toEqual({ reason: "predicted TTFT" });
  });
});
