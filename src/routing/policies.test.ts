import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { Rates, RequestFacts, WorkerSnapshot } from "./decision.ts";
import { createPolicy, POLICY_NAMES } from "./policies.ts";

const RATES: Rates = { baseMs: 20, perTokenMs: 0.3, perStreamMs: 1, errorMs: 30, observations: 0 };

function worker(id: string, over: Partial<WorkerSnapshot> = {}): WorkerSnapshot {
  return {
    id: workerId(id),
    inFlight: 0,
    queuedTokens: 0,
    streams: 0,
    cachedTokens: 0,
    uncachedTokens: 1000 - (over.cachedTokens ?? 0),
    tier: "device",
    rates: RATES,
    placedTokens: 0,
    ...over,
  };
}

const request = (prefix = 7, promptTokens = 1000): RequestFacts => ({ model: "m", promptTokens, exact: false, prefix });
const ttft = () => createPolicy("ttft");

describe("ttft", () => {
  it("choose() goes where the prefix is when loads are equal", () => {
    for (let prefix = 0; prefix < 20; prefix++) {
      const d = ttft().choose(request(prefix), [worker("a"), worker("b", { cachedTokens: 500 })]);
      expect(d.worker).toBe("b");
    }
  });

  it("choose() leaves a cached prefix when its worker's queue costs more than computing anew", () => {
    const busy = worker("b", { cachedTokens: 500, queuedTokens: 4000, inFlight: 4 });
    expect(ttft().choose(request(), [worker("a"), busy]).worker).toBe("a");
  });

  it("choose() avoids a worker that is computing another cold prompt", () => {
    for (let prefix = 0; prefix < 20; prefix++) {
      const d = ttft().choose(request(prefix, 40), [
        worker("a", { uncachedTokens: 40, queuedTokens: 40, inFlight: 1, placedTokens: 40 }),
        worker("b", { uncachedTokens: 40 }),
      ]);
      expect(d.worker).toBe("b");
    }
  });

  it("choose() spreads cold prefixes over equal workers, and sends each to the same one again", () => {
    const workers = ["a", "b", "c", "d"].map((id) => worker(id));
    const homes = new Map<string, number>();
    for (let prefix = 0; prefix < 400; prefix++) {
      const home = ttft().choose(request(prefix * 7919), workers).worker;
      expect(ttft().choose(request(prefix * 7919), [...workers].reverse()).worker).toBe(home);
      homes.set(home, (homes.get(home) ?? 0) + 1);
    }
    for (const id of ["a", "b", "c", "d"]) expect(homes.get(id)).toBeGreaterThan(60);
  });

  it("choose() takes the emptier cache among equals", () => {
    for (let prefix = 0; prefix < 20; prefix++) {
      const d = ttft().choose(request(prefix), [worker("a", { placedTokens: 50_000 }), worker("b")]);
      expect(d.worker).toBe("b");
    }
  });

  it("choose() does not let a short common prefix draw every chat to one worker", () => {
    const d = ttft().choose(request(), [worker("a", { cachedTokens: 50, placedTokens: 5000 }), worker("b")]);
    expect(d.worker).toBe("b");
    expect(d.reason).toContain("near tie");
  });

  it("choose() counts a slow tier as less than a device hit and more than nothing", () => {
    const host = worker("host", { cachedTokens: 800, tier: "host" });
    const device = worker("device", { cachedTokens: 800 });
    expect(ttft().choose(request(), [host, device]).worker).toBe("device");
    expect(ttft().choose(request(), [worker("none"), host]).worker).toBe("host");
  });

  it("choose() counts what a prompt's computing costs those behind it, when there are such", () => {
    const score = (inFlight: number) => {
      const d = ttft().choose(request(), [worker("a", { inFlight }), worker("b", { inFlight, cachedTokens: 700 })]);
      return d.candidates.map(({ othersMs }) => othersMs);
    };
    expect(score(0)).toEqual([0, 0]);
    expect(score(1)).toEqual([300, 90]);
    // However long queues are, a hit counts at most thrice.
    expect(score(50)).toEqual([600, 180]);
  });

  it("choose() waits a little for a cached prefix when all are busy, and not when nobody stands behind", () => {
    const among = (inFlight: number) => [
      worker("idle", { inFlight: 0 }),
      worker("holder", { cachedTokens: 700, queuedTokens: 1250, inFlight }),
    ];
    expect(ttft().choose(request(), among(1)).worker).toBe("idle");
    expect(ttft().choose(request(), among(2)).worker).toBe("holder");
  });

  it("choose() gives each candidate's terms, which sum to its predicted TTFT", () => {
    const d = ttft().choose(request(), [worker("a", { streams: 3, queuedTokens: 10 }), worker("b")]);
    for (const c of d.candidates) {
      const sum = c.terms.baseMs + c.terms.waitMs + c.terms.fetchMs + c.terms.prefillMs + c.terms.interferenceMs;
      expect(c.ttftMs).toBeCloseTo(sum, 9);
    }
  });
});

describe("createPolicy()", () => {
  const workers = [worker("a"), worker("b", { inFlight: 3 }), worker("c", { cachedTokens: 900 })];

  it.each(POLICY_NAMES)("%s answers one of the workers given, with all candidates, whatever the figures", (name) => {
    const figure = fc.integer({ min: 0, max: 1e6 });
    const anyWorker = fc
      .record({ inFlight: figure, queuedTokens: figure, streams: figure, cachedTokens: figure, placedTokens: figure })
      .map((over) => over);
    fc.assert(
      fc.property(fc.array(anyWorker, { minLength: 1, maxLength: 8 }), fc.nat(), (overs, prefix) => {
        const given = overs.map((over, i) => worker(`w${i}`, over));
        const d = createPolicy(name).choose(request(prefix), given);
        expect(given[d.index]?.id).toBe(d.worker);
        expect(d.candidates.map((c) => c.worker)).toEqual(given.map((w) => w.id));
        expect(d.reason).not.toBe("");
      }),
    );
  });

  it.each(POLICY_NAMES)("%s throws RangeError without workers", (name) => {
    expect(() => createPolicy(name).choose(request(), [])).toThrow(RangeError);
  });

  it("round_robin takes each in turn", () => {
    const policy = createPolicy("round_robin");
    expect([1, 2, 3, 4].map(() => policy.choose(request(), workers).worker)).toEqual(["a", "b", "c", "a"]);
  });

  it("least_loaded takes the fewest in flight and turns among equals", () => {
    const policy = createPolicy("least_loaded");
    const seen = new Set([1, 2, 3, 4].map(() => policy.choose(request(), workers).worker));
    expect(seen).toEqual(new Set(["a", "c"]));
  });

  it("random draws the same row for the same seed", () => {
    const draw = (seed: number) => {
      const policy = createPolicy("random", { seed, weights: { kv: 1, load: 1, power: 0, capacity: 0 } });
      return Array.from({ length: 20 }, () => policy.choose(request(), workers).index);
    };
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });

  it("weighted counts power and free KV space where they are told, leaves them out where nobody tells, and ttft ignores them", () => {
    const only = (key: "power" | "capacity") =>
      createPolicy("weighted", { seed: 1, weights: { kv: 0, load: 0, power: 0, capacity: 0, [key]: 1 } });
    const told = [
      worker("a", { figures: { powerHeadroom: 0.1, kvFree: 0.9 } }),
      worker("b", { figures: { powerHeadroom: 0.8, kvFree: 0.2 } }),
    ];
    expect(only("power").choose(request(), told).worker).toBe("b");
    expect(only("capacity").choose(request(), told).worker).toBe("a");
    // One that tells nothing counts as the mean of the others.
    const silent = worker("c");
    expect(
      only("power")
        .choose(request(), [silent, told[1]!])
        .candidates.map(({ score }) => score),
    ).toEqual([-0.8, -0.8]);
    // Nobody tells: no power term, and free places in the place of KV space.
    const none = [worker("d", { inFlight: 4 }), worker("e")];
    expect(
      only("power")
        .choose(request(), none)
        .candidates.map(({ score }) => score),
    ).toEqual([-0, -0]);
    expect(only("capacity").choose(request(), none).worker).toBe("e");
    const same = ttft()
      .choose(request(), told)
      .candidates.map(({ score }) => score);
    expect(same).toEqual(
      ttft()
        .choose(request(), [worker("a"), worker("b")])
        .candidates.map(({ score }) => score),
    );
  });

  it("weighted follows its weights", () => {
    const only = (key: "kv" | "load") =>
      createPolicy("weighted", { seed: 1, weights: { kv: 0, load: 0, power: 0, capacity: 0, [key]: 1 } });
    expect(only("kv").choose(request(), workers).worker).toBe("c");
    expect(only("load").choose(request(), [worker("b", { inFlight: 3 }), worker("a")]).worker).toBe("a");
  });

  it("throws CONFIG_INVALID naming the policies there are", () => {
    expect(() => createPolicy("toString")).toThrow(/"toString" is no routing policy\. Use one of ttft, weighted/);
  });
});
