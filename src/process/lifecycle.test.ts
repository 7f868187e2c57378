import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Effect, type Event, isAlive, type Policy, type State, step, wakeAt } from "./lifecycle.ts";

const POLICY: Policy = {
  readyMs: 1_000,
  drainMs: 0,
  graceMs: 500,
  sickMs: 300,
  hungMs: 900,
  stableMs: 5_000,
  backoffMs: 100,
  backoffMaxMs: 2_000,
  maxAttempts: 4,
  firstAttempts: 2,
};

/** Run events one after the other; each is `event` or `event@time`. */
function run(script: string, policy: Policy = POLICY): { state: State; effects: Effect[] } {
  let state: State = { at: "stopped" };
  let now = 0;
  const effects: Effect[] = [];
  for (const word of script.split(" ")) {
    const [event, at] = word.split("@");
    if (at !== undefined) now = Number(at);
    const [next, ...more] = step(state, event as Event, now, policy);
    state = next;
    effects.push(...more);
  }
  return { state, effects };
}

describe("step()", () => {
  it("starts, admits, evicts before SIGTERM and ends", () => {
    expect(run("start probe-ok stop exit")).toEqual({
      state: { at: "stopped" },
      effects: ["spawn", "admit", "evict", "sigterm"],
    });
  });

  it("kills an engine that is not ready in its time, and gives up on one that never was", () => {
    expect(run("start@0 tick@999 tick@1000 probe-ok exit")).toEqual({
      state: { at: "failed" },
      effects: ["spawn", "sigkill"],
    });
  });

  it("tries again after a restart that was not ready in time", () => {
    const { state } = run("start@0 probe-ok exit@10 tick@3000 tick@4000 exit");
    expect(state).toMatchObject({ at: "backoff", proven: true });
  });

  it("backs off twice as long after each crash, with jitter, up to the limit", () => {
    const wait = (attempt: number, jitter: number): number => {
      const [next] = step(
        { at: "starting", attempt, proven: true, by: 1e9 },
        "exit",
        0,
        { ...POLICY, maxAttempts: 99 },
        jitter,
      );
      return next.at === "backoff" ? next.by : -1;
    };
    expect([wait(1, 0), wait(2, 0), wait(3, 0), wait(9, 0)]).toEqual([100, 200, 400, 1_000]);
    expect(wait(1, 0.5)).toBe(150);
  });

  it("forgives past attempts after a stable run", () => {
    const crashed: State = { at: "ready", attempt: 4, stableAt: 5_000 };
    expect(step(crashed, "exit", 4_999, POLICY)[0]).toEqual({ at: "failed" });
    expect(step(crashed, "exit", 5_000, POLICY)[0]).toMatchObject({ at: "backoff", attempt: 0 });
  });

  it("drains first where the policy says so, then terminates, again, and kills", () => {
    const policy = { ...POLICY, drainMs: 200, secondTermMs: 50 };
    const { state, effects } = run(
      "start@0 probe-ok stop@10 tick@209 tick@210 tick@260 tick@300 tick@710 exit",
      policy,
    );
    expect(state).toEqual({ at: "stopped" });
    expect(effects).toEqual(["spawn", "admit", "evict", "sigterm", "sigterm", "sigkill"]);
    expect(run("start probe-ok stop drained", policy).effects).toEqual(["spawn", "admit", "evict", "sigterm"]);
  });

  it("takes an unwell engine out, back in when it is well again, and restarts it when it stays so", () => {
    expect(run("start probe-ok probe-bad probe-bad probe-ok").effects).toEqual(["spawn", "admit", "evict", "admit"]);
    const { state, effects } = run("start@0 probe-ok probe-bad@10 tick@310 exit@311");
    expect(effects).toEqual(["spawn", "admit", "evict", "sigkill"]);
    expect(state).toMatchObject({ at: "backoff" });
  });

  it("takes a hung engine out, back in when it answers, and kills it when it stays silent for longer", () => {
    // Broke: an engine that was stopped (SIGSTOP) stayed ready for ever, and requests went on to it.
    expect(run("start probe-ok probe-hung probe-hung probe-ok").effects).toEqual(["spawn", "admit", "evict", "admit"]);
    const { state, effects } = run("start@0 probe-ok probe-hung@10 tick@310 tick@910 exit@911");
    expect(effects).toEqual(["spawn", "admit", "evict", "sigkill"]);
    expect(state).toMatchObject({ at: "backoff" });
  });

  it("kills the group of an engine whose guard is lost", () => {
    expect(run("start probe-ok lost exit")).toMatchObject({
      state: { at: "backoff" },
      effects: ["spawn", "admit", "evict", "sigkill"],
    });
  });

  it("gives up at once on a fatal start", () => {
    expect(run("start fatal")).toEqual({ state: { at: "failed" }, effects: ["spawn"] });
  });
});

const EVENTS: readonly Event[] = [
  "start",
  "probe-ok",
  "probe-bad",
  "probe-hung",
  "exit",
  "fatal",
  "lost",
  "stop",
  "drained",
  "tick",
];

const policies = fc.record({
  readyMs: fc.integer({ min: 1, max: 2_000 }),
  drainMs: fc.constantFrom(0, 100, 1_000),
  graceMs: fc.integer({ min: 0, max: 1_000 }),
  secondTermMs: fc.integer({ min: 1, max: 500 }),
  sickMs: fc.integer({ min: 0, max: 500 }),
  hungMs: fc.integer({ min: 0, max: 1_000 }),
  stableMs: fc.integer({ min: 0, max: 5_000 }),
  backoffMs: fc.integer({ min: 1, max: 500 }),
  backoffMaxMs: fc.constant(2_000),
  maxAttempts: fc.integer({ min: 1, max: 6 }),
  firstAttempts: fc.integer({ min: 1, max: 3 }),
});
const scripts = fc.array(
  fc.record({
    event: fc.constantFrom(...EVENTS),
    after: fc.integer({ min: 0, max: 1_500 }),
    jitter: fc.double({ min: 0, max: 0.999, noNaN: true }),
  }),
  { maxLength: 200 },
);

/** A world with one process slot: "exit" and "fatal" happen only to a process that is there. */
function play(
  script: readonly { event: Event; after: number; jitter: number }[],
  policy: Policy,
  check: (w: World) => void,
): World {
  const world: World = {
    state: { at: "stopped" },
    now: 0,
    running: false,
    spawns: 0,
    admitted: false,
    failedAfter: [],
  };
  let fatal = false;
  let sinceStable = 0;
  for (const { event, after, jitter } of script) {
    world.now += after;
    if ((event === "exit" || event === "fatal") && !world.running) continue;
    const before = world.state;
    const [next, ...effects] = step(before, event, world.now, policy, jitter);
    if (event === "exit" || event === "fatal") world.running = false;
    if (event === "start" && !isAlive(before) && before.at !== "backoff") sinceStable = 0;
    if (before.at === "ready" && event !== "tick" && world.now >= before.stableAt && next.at === "backoff")
      sinceStable = 0;
    for (const effect of effects) {
      if (effect === "spawn") {
        expect(world.running, "two processes at once").toBe(false);
        world.running = true;
        world.spawns++;
        sinceStable++;
      }
      if (effect === "sigterm" || effect === "sigkill") expect(world.running, `${effect} with no process`).toBe(true);
      if (effect === "admit") world.admitted = true;
      if (effect === "evict") world.admitted = false;
    }
    fatal = event === "fatal" || (before.at === "killing" && before.final);
    if (next.at === "failed" && before.at !== "failed" && !fatal) world.failedAfter.push(sinceStable);
    world.state = next;
    check(world);
  }
  return world;
}

interface World {
  state: State;
  now: number;
  running: boolean;
  spawns: number;
  admitted: boolean;
  failedAfter: number[];
}

describe("step() in any order of events", () => {
  it("never has two processes, signals only a live one, and admits only a ready one", () => {
    fc.assert(
      fc.property(scripts, policies, (script, policy) => {
        play(script, policy, ({ state, running, admitted }) => {
          expect(running).toBe(isAlive(state));
          expect(admitted).toBe(state.at === "ready");
        });
      }),
    );
  });

  it("gives up only after as many starts as the policy allows", () => {
    fc.assert(
      fc.property(scripts, policies, (script, policy) => {
        const { failedAfter } = play(script, policy, () => {});
        const least = Math.min(policy.maxAttempts, policy.firstAttempts);
        for (const starts of failedAfter) expect(starts).toBeGreaterThanOrEqual(least);
      }),
    );
  });

  it("always ends after a stop, when a killed process ends", () => {
    fc.assert(
      fc.property(scripts, policies, (script, policy) => {
        let { state, now } = play(script, policy, () => {});
        let killed = false;
        [state] = step(state, "stop", now, policy);
        // What was killed before the stop may end as well.
        for (let i = 0; i < 20 && isAlive(state); i++) {
          now = Math.max(now, wakeAt(state) ?? now);
          const [next, ...effects] = step(state, killed ? "exit" : "tick", now, policy);
          killed ||= effects.includes("sigkill");
          state = next;
        }
        expect(["stopped", "failed"]).toContain(state.at);
      }),
    );
  });
});
