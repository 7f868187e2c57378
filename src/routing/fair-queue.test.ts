import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FairQueue, PRIORITY_STEP_MS, type QueueEntry } from "./fair-queue.ts";

type Entry = QueueEntry<string>;
let serial = 0;
const entry = (over: Partial<Entry> = {}): Entry => ({
  subject: "s",
  priority: 0,
  sinceMs: 0,
  deadlineMs: Number.POSITIVE_INFINITY,
  what: `e${serial++}`,
  ...over,
});

function takeAll(queue: FairQueue<string>): Entry[] {
  const out: Entry[] = [];
  for (let next = queue.take(); next !== undefined; next = queue.take()) out.push(next);
  return out;
}

const anyEntry = fc.record({
  subject: fc.constantFrom("a", "b", "c"),
  priority: fc.integer({ min: -2, max: 2 }),
  sinceMs: fc.nat(5 * PRIORITY_STEP_MS),
  deadlineMs: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(100_000)),
});

describe("FairQueue", () => {
  it("take() goes by deadline within a subject, and by arrival among those without", () => {
    const queue = new FairQueue<string>();
    const [none, late, none2, soon] = [entry(), entry({ deadlineMs: 900 }), entry(), entry({ deadlineMs: 100 })];
    for (const each of [none, late, none2, soon]) queue.push(each);
    expect(takeAll(queue)).toEqual([soon, late, none, none2]);
  });

  it("take() lets a higher priority go first, and a deadline does not outweigh it", () => {
    const queue = new FairQueue<string>();
    const [low, high] = [entry({ deadlineMs: 10 }), entry({ priority: 1, sinceMs: 500 })];
    for (const each of [low, high]) queue.push(each);
    expect(takeAll(queue)).toEqual([high, low]);
  });

  it("take() gives a tenant with one request its place beside one with a thousand", () => {
    const queue = new FairQueue<string>();
    for (let i = 0; i < 1000; i++) queue.push(entry({ subject: "flood", deadlineMs: 1 }));
    for (let i = 0; i < 5; i++) queue.push(entry({ subject: "light", sinceMs: 1 }));
    // A place becomes free, and is taken again, one after the other.
    const turns = Array.from({ length: 10 }, () => {
      const { subject } = queue.take()!;
      queue.ended(subject);
      return subject;
    });
    expect(turns.filter((subject) => subject === "light")).toHaveLength(5);
  });

  it("take() counts what runs: a tenant that holds all places waits until others have as many", () => {
    const queue = new FairQueue<string>();
    for (let i = 0; i < 4; i++) queue.started("holder");
    for (let i = 0; i < 4; i++) queue.push(entry({ subject: "holder" }));
    for (let i = 0; i < 4; i++) queue.push(entry({ subject: "other" }));
    expect(takeAll(queue).map(({ subject }) => subject)).toEqual([
      ..."other other other other".split(" "),
      ..."holder holder holder holder".split(" "),
    ]);
  });

  it("nobody starves: whoever waits is taken though others of higher priority keep coming", () => {
    fc.assert(
      fc.property(anyEntry, fc.integer({ min: 0, max: 3 }), fc.nat(3), (victim, above, burst) => {
        const queue = new FairQueue<string>();
        const patient = entry({ ...victim, sinceMs: 0 });
        queue.push(patient);
        // One place becomes free in 100 ms, and more of higher priority and nearer deadline come in that time.
        const limit = ((above + 2) * PRIORITY_STEP_MS) / 100;
        for (let i = 1; queue.length > 0; i++) {
          const sinceMs = i * 100;
          for (let k = 0; k <= burst; k++) {
            queue.push(entry({ subject: "flood", priority: victim.priority + above, sinceMs, deadlineMs: sinceMs }));
          }
          const next = queue.take()!;
          if (next === patient) return;
          queue.ended(next.subject);
          // Those who came before it grew too old to be passed may all go first.
          expect(i).toBeLessThan(limit + limit * (burst + 1));
        }
      }),
      { numRuns: 30 },
    );
  });

  it("keeps what is pushed until it is taken or removed, exactly once, in its subject's order", () => {
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.record({ do: fc.constant("push" as const), entry: anyEntry }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("take" as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("remove" as const), at: fc.nat() }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("end" as const), at: fc.nat() }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new FairQueue<string>();
        const waiting: Entry[] = [];
        const running: string[] = [];
        for (const each of steps) {
          if (each.do === "push") {
            const made = entry(each.entry);
            waiting.push(made);
            queue.push(made);
          } else if (each.do === "take") {
            const taken = queue.take();
            expect(taken === undefined).toBe(waiting.length === 0);
            if (taken === undefined) continue;
            expect(rankOf(taken, running)).toEqual(Math.min(...waiting.map((one) => rankOf(one, running))));
            const own = waiting.filter((one) => one.subject === taken.subject && classOf(one) === classOf(taken));
            expect(taken.deadlineMs).toBe(Math.min(...own.map(({ deadlineMs }) => deadlineMs)));
            waiting.splice(waiting.indexOf(taken), 1);
            running.push(taken.subject);
          } else if (each.do === "remove" && waiting.length > 0) {
            const [gone] = waiting.splice(each.at % waiting.length, 1);
            expect(queue.remove(gone!)).toBe(true);
            expect(queue.remove(gone!)).toBe(false);
          } else if (each.do === "end" && running.length > 0) {
            queue.ended(running.splice(each.at % running.length, 1)[0]!);
          }
          expect(queue.length).toBe(waiting.length);
        }
        for (const subject of running) queue.ended(subject);
        for (const each of takeAll(queue)) queue.ended(each.subject);
        expect([queue.length, queue.subjects]).toEqual([0, 0]);
      }),
    );
  });

  it("displaced() is the last one of whoever has the most waiting, and nobody for who has as many", () => {
    const queue = new FairQueue<string>();
    const flood = [1, 2, 3].map((sinceMs) => entry({ subject: "flood", sinceMs }));
    const urgent = entry({ subject: "flood", sinceMs: 4, priority: 1 });
    for (const each of [...flood, urgent, entry({ subject: "light" })]) queue.push(each);
    expect(queue.displaced("light")).toBe(flood[2]);
    expect(queue.displaced("new")).toBe(flood[2]);
    expect(queue.displaced("flood")).toBeUndefined();
    for (const each of flood.slice(0, 2)) queue.remove(each);
    expect(queue.displaced("light")).toBeUndefined();
    expect(queue.length).toBe(3);
  });

  it("ahead() counts those who go before a newcomer", () => {
    const queue = new FairQueue<string>();
    for (const priority of [0, 0, 1, 2]) queue.push(entry({ priority }));
    expect([-1, 0, 1, 2, 3].map((priority) => queue.ahead(priority, 0))).toEqual([4, 4, 2, 1, 0]);
  });
});

/** Smaller goes first: the level, of equals the higher priority. */
function classOf({ priority, sinceMs }: Entry): number {
  return (Math.floor(sinceMs / PRIORITY_STEP_MS) - priority) * 100 - priority;
}

/** The class, and in it how many its subject has running. */
function rankOf(e: Entry, running: readonly string[]): number {
  return classOf(e) * 1000 + running.filter((subject) => subject === e.subject).length;
}
