import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type WorkerId, workerId } from "../core/ids.ts";
import { mustLeave, type SwapEngine, type SwapGroup, type SwapRules } from "../core/swap-rules.ts";
import { emptySwap, type SwapAction, type SwapEvent, type SwapState, stepSwap, type Wait } from "./swap-plan.ts";
import { SwapWorld } from "./testing/swap-world.ts";

const engine = (name: string, over: Partial<SwapEngine> = {}): SwapEngine => ({
  id: workerId(`n/${name}`),
  model: name,
  gpus: [0],
  memoryBytes: 0,
  ...over,
});
const group = (name: string, over: Partial<SwapGroup> = {}): SwapGroup => ({
  name,
  swap: true,
  exclusive: true,
  persistent: false,
  ...over,
});
const A = engine("a");
const B = engine("b");
const rulesOf = (engines: readonly SwapEngine[], over: Partial<SwapRules> = {}): SwapRules => ({
  engines,
  minResidencyMs: 1_000,
  retryMs: 30_000,
  ...over,
});

/** A planner and a clock, told what happens. */
class Desk {
  readonly rules: SwapRules;
  state: SwapState;
  now = 0;
  wakeAt: number | undefined;
  readonly #waiting = new Map<string, Wait>();

  constructor(rules: SwapRules) {
    this.rules = rules;
    this.state = emptySwap(rules);
  }

  at(now: number, event: SwapEvent): string[] {
    this.now = now;
    const { state, actions, wakeAt } = stepSwap(this.rules, this.state, event, now);
    this.state = state;
    this.wakeAt = wakeAt;
    return actions.map(({ type, engine: id }: SwapAction) => `${type} ${id.slice(2)}`);
  }

  /** So many wait for a model from now on; 0: nobody does. */
  wait(now: number, model: string, count: number): string[] {
    const { oldestMs } = this.#waiting.get(model) ?? { oldestMs: now };
    if (count === 0) this.#waiting.delete(model);
    else this.#waiting.set(model, { count, oldestMs });
    return this.at(now, { type: "waiting", waiting: new Map(this.#waiting) });
  }

  phase(name: string): string {
    return this.state.engines.get(workerId(`n/${name}`))!.phase;
  }
}
const of = (type: "idle" | "ready" | "asleep" | "gone" | "failed" | "load" | "unload", name: string): SwapEvent => ({
  type,
  engine: workerId(`n/${name}`),
});

describe("mustLeave()", () => {
  it("keeps engines that share a GPU apart, unless they serve one model or live together in a group", () => {
    expect(mustLeave(A, B)).toBe(true);
    expect(mustLeave(A, engine("b", { gpus: [1] }))).toBe(false);
    expect(mustLeave(A, engine("a2", { model: "a" }))).toBe(false);
    const together = group("g", { swap: false });
    expect(mustLeave(engine("a", { group: together }), engine("b", { group: together }))).toBe(false);
  });

  it("takes swap, exclusive and persistent as llama-swap does", () => {
    const free = { gpus: [] };
    const one = engine("a", { ...free, group: group("g") });
    expect(mustLeave(one, engine("b", { ...free, group: group("g") }))).toBe(true);
    expect(mustLeave(one, engine("b", { ...free, group: group("h") }))).toBe(true);
    expect(mustLeave(one, engine("b", { ...free, group: group("h", { persistent: true }) }))).toBe(false);
    expect(mustLeave(engine("b", { ...free, group: group("h", { exclusive: false }) }), one)).toBe(false);
    expect(mustLeave(one, engine("b", free))).toBe(false);
  });
});

describe("stepSwap()", () => {
  it("loads an engine when somebody waits for it, and the other one only once its place is free", () => {
    const desk = new Desk(rulesOf([A, B]));
    expect(desk.wait(0, "a", 1)).toEqual(["load a"]);
    desk.at(100, of("ready", "a"));
    expect(desk.wait(101, "a", 0)).toEqual([]);
    expect(desk.wait(200, "b", 1)).toEqual([]);
    expect(desk.wakeAt).toBe(1_100);
    expect(desk.at(1_100, { type: "tick" })).toEqual(["hold a"]);
    expect(desk.at(1_300, of("idle", "a"))).toEqual(["unload a"]);
    expect(desk.phase("b")).toBe("unloaded");
    expect(desk.at(1_350, of("gone", "a"))).toEqual(["load b"]);
  });

  it("does not hold an engine before those that waited for it have gone to it", () => {
    const desk = new Desk(rulesOf([A, B], { minResidencyMs: 0 }));
    desk.wait(0, "a", 3);
    desk.wait(1, "b", 1);
    expect(desk.at(100, of("ready", "a"))).toEqual([]);
    expect(desk.wait(101, "a", 0)).toEqual(["hold a"]);
  });

  it("holds it all the same when nobody fetches them (a router that died)", () => {
    const desk = new Desk(rulesOf([A, B]));
    desk.wait(0, "a", 3);
    desk.wait(1, "b", 1);
    desk.at(100, of("ready", "a"));
    expect(desk.at(11_100, { type: "tick" })).toEqual(["hold a"]);
  });

  it("takes a leaving engine back when nobody waits for the other any more", () => {
    const desk = new Desk(rulesOf([A, B], { minResidencyMs: 0 }));
    desk.wait(0, "a", 1);
    desk.at(100, of("ready", "a"));
    desk.wait(101, "a", 0);
    expect(desk.wait(200, "b", 1)).toEqual(["hold a"]);
    expect(desk.wait(300, "b", 0)).toEqual(["release a"]);
    expect(desk.at(301, of("idle", "a"))).toEqual([]);
  });

  it("gives up a load that nobody wants any more, for one that somebody wants", () => {
    const desk = new Desk(rulesOf([A, B]));
    desk.wait(0, "a", 1);
    expect(desk.wait(50, "a", 0)).toEqual([]);
    expect(desk.wait(60, "b", 1)).toEqual(["unload a"]);
    expect(desk.at(70, of("gone", "a"))).toEqual(["load b"]);
  });

  it("unloads after ttl without a request, and not while one runs", () => {
    const desk = new Desk(rulesOf([engine("a", { ttlMs: 5_000 })]));
    desk.wait(0, "a", 1);
    desk.at(100, of("ready", "a"));
    desk.wait(100, "a", 0);
    desk.at(150, { type: "use", engine: A.id, busy: true });
    expect(desk.wakeAt).toBeUndefined();
    desk.at(9_000, { type: "use", engine: A.id, busy: false });
    expect(desk.wakeAt).toBe(14_000);
    expect(desk.at(14_000, { type: "tick" })).toEqual(["hold a"]);
    expect(desk.at(14_001, of("idle", "a"))).toEqual(["unload a"]);
    expect(desk.at(14_002, of("gone", "a"))).toEqual([]);
  });

  it("takes one back from its ttl when a request comes while it leaves", () => {
    const desk = new Desk(rulesOf([engine("a", { ttlMs: 5_000 })]));
    desk.at(0, of("load", "a"));
    desk.at(100, of("ready", "a"));
    expect(desk.at(5_100, { type: "tick" })).toEqual(["hold a"]);
    expect(desk.wait(5_101, "a", 1)).toEqual(["release a"]);
  });

  it("does not try a failed load again at once, and then only when somebody waits", () => {
    const desk = new Desk(rulesOf([A, B]));
    desk.wait(0, "a", 1);
    desk.at(100, of("failed", "a"));
    expect(desk.phase("a")).toBe("failed");
    expect(desk.wait(200, "b", 1)).toEqual(["load b"]);
    desk.wait(300, "a", 0);
    desk.at(30_100, { type: "tick" });
    expect(desk.phase("a")).toBe("unloaded");
  });

  it("loads and unloads when asked, and loads again what somebody waits for", () => {
    const desk = new Desk(rulesOf([A, B]));
    expect(desk.at(0, of("load", "a"))).toEqual(["load a"]);
    desk.at(100, of("ready", "a"));
    expect(desk.at(200, of("unload", "a"))).toEqual(["hold a"]);
    expect(desk.wait(201, "a", 1)).toEqual([]);
    expect(desk.at(202, of("idle", "a"))).toEqual(["unload a"]);
    expect(desk.at(203, of("gone", "a"))).toEqual(["load a"]);
  });

  it("a load that was asked for and taken back does not stay wanted for ever", () => {
    const desk = new Desk(rulesOf([A, B], { minResidencyMs: 0 }));
    desk.at(0, of("load", "a"));
    desk.at(100, of("ready", "a"));
    expect(desk.wait(200, "b", 1)).toEqual(["hold a"]);
    desk.at(210, of("load", "a"));
    expect(desk.wait(220, "b", 0)).toEqual(["release a"]);
    expect(desk.wait(230, "b", 1)).toEqual(["hold a"]);
    expect(desk.at(240, of("idle", "a"))).toEqual(["unload a"]);
    expect(desk.at(250, of("gone", "a"))).toEqual(["load b"]);
  });

  it("makes room in the memory budget by what was unused longest", () => {
    const sized = (name: string): SwapEngine => engine(name, { gpus: [], memoryBytes: 4 });
    const desk = new Desk(rulesOf([sized("a"), sized("b"), sized("c")], { memoryBytes: 8, minResidencyMs: 0 }));
    for (const [n, name] of ["a", "b"].entries()) {
      expect(desk.wait(n * 100, name, 1)).toEqual([`load ${name}`]);
      desk.at(n * 100 + 50, of("ready", name));
      desk.wait(n * 100 + 60, name, 0);
    }
    desk.at(300, { type: "use", engine: A.id, busy: false });
    expect(desk.wait(400, "c", 1)).toEqual(["hold b"]);
    desk.at(401, of("idle", "b"));
    expect(desk.at(402, of("gone", "b"))).toEqual(["load c"]);
    expect(desk.phase("a")).toBe("loaded");
  });

  it("wakes what sleeps, and ends it when asked to unload it", () => {
    const desk = new Desk(rulesOf([A, B], { minResidencyMs: 0 }));
    desk.at(0, of("load", "a"));
    desk.at(100, of("ready", "a"));
    desk.wait(200, "b", 1);
    desk.at(201, of("idle", "a"));
    expect(desk.at(202, of("asleep", "a"))).toEqual(["load b"]);
    expect(desk.at(203, of("unload", "a"))).toEqual(["unload a"]);
    desk.at(204, of("gone", "a"));
    expect(desk.phase("a")).toBe("unloaded");
  });
});

describe("a world of engines, a router and clients", () => {
  const engines = fc.integer({ min: 2, max: 5 }).chain((count) =>
    fc.tuple(
      ...Array.from({ length: count }, (_, n) =>
        fc.record({
          gpus: fc.subarray([0, 1, 2], { maxLength: 2 }),
          group: fc.constantFrom<SwapGroup | undefined>(undefined, undefined, group("g"), group("h", { swap: false })),
          memoryBytes: fc.constantFrom(0, 2, 3),
          ttlMs: fc.constantFrom<number | undefined>(undefined, undefined, 300, 2_000),
          model: fc.constantFrom(`m${n}`, `m${n}`, "m0"),
          loadMs: fc.integer({ min: 1, max: 800 }),
          sleeps: fc.boolean(),
        }),
      ),
    ),
  );
  const requests = fc.array(
    fc.record({
      atMs: fc.integer({ min: 0, max: 6_000 }),
      model: fc.constantFrom("m0", "m1", "m2", "m3", "m4"),
      workMs: fc.integer({ min: 1, max: 900 }),
    }),
    { maxLength: 60 },
  );
  const worlds = fc.record({
    engines,
    requests,
    minResidencyMs: fc.constantFrom(0, 200, 1_000),
    budget: fc.constantFrom<number | undefined>(undefined, 5),
    failing: fc.constantFrom(0, 0, 3),
  });
  type Parts = typeof worlds extends fc.Arbitrary<infer T> ? T : never;

  const build = (parts: Parts, deadlineMs: number): SwapWorld => {
    const made: SwapEngine[] = parts.engines.map((each, n) => ({
      id: workerId(`n/e${n}`),
      model: each.model,
      gpus: each.gpus,
      memoryBytes: each.memoryBytes,
      ...(each.group === undefined ? {} : { group: each.group }),
      ...(each.ttlMs === undefined ? {} : { ttlMs: each.ttlMs }),
    }));
    const part = (id: WorkerId) => parts.engines[made.findIndex((each) => each.id === id)]!;
    return new SwapWorld({
      rules: {
        engines: made,
        minResidencyMs: parts.minResidencyMs,
        retryMs: 2_000,
        ...(parts.budget === undefined ? {} : { memoryBytes: parts.budget }),
      },
      requests: parts.requests.filter(({ model }) => made.some((each) => each.model === model)),
      loadMs: (id) => part(id).loadMs,
      sleeps: (id) => part(id).sleeps,
      fails: (_, nth) => parts.failing > 0 && nth % parts.failing === 1,
      deadlineMs,
    });
  };

  it("serves every request in the end, cuts none, and never loads two that exclude each other", () => {
    fc.assert(
      fc.property(worlds, (parts) => {
        const world = build(parts, 1_000_000);
        expect(world.run(20_000), "it comes to rest").toBe(true);
        for (const request of world.requests) expect(request.doneMs, JSON.stringify(request)).toBeDefined();
      }),
      { numRuns: 400 },
    );
  });

  it("serves or refuses each by its deadline", () => {
    fc.assert(
      fc.property(worlds, (parts) => {
        const world = build(parts, 700);
        expect(world.run(20_000)).toBe(true);
        for (const { arrivedMs, servedMs, refusedMs } of world.requests) {
          expect((servedMs ?? refusedMs ?? Number.NaN) - arrivedMs).toBeLessThanOrEqual(700);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("serves requests of one model in the order in which they came", () => {
    fc.assert(
      fc.property(worlds, (parts) => {
        const world = build(parts, 1_000_000);
        world.run(20_000);
        for (const model of new Set(world.requests.map((each) => each.model))) {
          const served = world.requests.filter((each) => each.model === model).map((each) => each.servedMs!);
          expect(served).toEqual([...served].sort((a, b) => a - b));
        }
      }),
      { numRuns: 200 },
    );
  });

  it("keeps each for its least residency while two models alternate, and starves neither", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 50, max: 2_000 }),
        fc.integer({ min: 1, max: 500 }),
        fc.integer({ min: 1, max: 20 }),
        (minResidencyMs, loadMs, everyMs) => {
          const rules = rulesOf([A, B], { minResidencyMs });
          const asked = Array.from({ length: 600 }, (_, n) => ({
            atMs: n * everyMs,
            model: n % 2 ? "a" : "b",
            workMs: 30,
          }));
          const never = { fails: () => false, sleeps: () => false, deadlineMs: 1_000_000 };
          const world = new SwapWorld({ rules, requests: asked, loadMs: () => loadMs, ...never });
          expect(world.run(50_000)).toBe(true);
          const lastMs = Math.max(...world.requests.map((each) => each.doneMs!));
          expect(world.loads.length).toBeLessThanOrEqual(2 + lastMs / (minResidencyMs + loadMs));
          // It came when its model was just held: last requests, ends and loads of both, and one residency of the other.
          const longest = Math.max(...world.requests.map((each) => each.servedMs! - each.arrivedMs));
          expect(longest).toBeLessThanOrEqual(minResidencyMs + 2 * (30 + 5 + loadMs));
        },
      ),
      { numRuns: 100 },
    );
  });
});
