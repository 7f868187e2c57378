import { describe, expect, it } from "vitest";
import { ANONYMOUS, type Subject } from "../access/subject.ts";
import { isCgnError } from "../core/errors.ts";
import type { Exchange } from "./accept.ts";
import { type Admission, type AdmissionLimits, Admissions, ownPriority } from "./admit.ts";
import { handClock } from "./testing/hand-clock.ts";

type Asking = Pick<Exchange, "req" | "startedMs" | "onLeft" | "subject">;

function rig(limits: AdmissionLimits, replicas = 1) {
  const clock = handClock();
  const admissions = new Admissions(limits, clock);
  const order: string[] = [];
  const ask = (name: string, headers: Record<string, string> = {}, subject: Partial<Subject> = {}) => {
    const exchange: Asking = {
      req: { headers } as unknown as Exchange["req"],
      startedMs: clock.now(),
      onLeft: undefined,
      subject: { ...ANONYMOUS, ...subject },
    };
    let admission: Admission | undefined;
    let error: unknown;
    const done = (async () => {
      try {
        admission = await admissions.admit("m", () => replicas, exchange);
        order.push(name);
      } catch (e) {
        error = e;
      }
    })();
    return {
      done,
      exchange,
      get error() {
        return error;
      },
      get details() {
        return isCgnError(error, "OVERLOADED")
          ? (error.details as { reason?: string; retryAfterS: number })
          : undefined;
      },
      async end() {
        await done;
        admission?.release();
        await Promise.resolve();
      },
    };
  };
  return { clock, admissions, ask, order };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("Admissions", () => {
  it("admit() lets everybody in where no limit is written", async () => {
    const { ask, admissions } = rig({});
    await Promise.all(Array.from({ length: 50 }, (_, i) => ask(`r${i}`).done));
    expect([admissions.running("m"), admissions.queued("m")]).toEqual([50, 0]);
  });

  it("admit() takes turns between tenants, and within one goes by deadline", async () => {
    const { ask, order } = rig({ maxConcurrentPerReplica: 1 });
    const first = ask("first", {}, { name: "x" });
    const a = (name: string, ms: string) => ask(name, { "x-cgn-deadline-ms": ms }, { name: "a", keyId: "a" });
    const waiting = [a("a-late", "9000"), a("a-soon", "8000"), a("a-later", "9500")];
    const b = ask("b", {}, { name: "b", keyId: "b" });
    await first.end();
    for (const each of [waiting[1]!, b, waiting[0]!, waiting[2]!]) await each.end();
    expect(order).toEqual(["first", "a-soon", "b", "a-late", "a-later"]);
  });

  it("admit() lets a higher priority go first, up to what the subject may ask", async () => {
    const { ask, order } = rig({ maxConcurrentPerReplica: 1 });
    const first = ask("first");
    const plain = ask("plain");
    const urgent = ask("urgent", { "x-cgn-priority": "5" });
    const capped = ask("capped", { "x-cgn-priority": "9" }, { name: "k", keyId: "k", priority: -1 });
    await first.end();
    for (const each of [urgent, plain, capped]) await each.end();
    expect(order).toEqual(["first", "urgent", "plain", "capped"]);
  });

  it("admit() refuses what is beyond max_queue, and says when the queue will have drained", async () => {
    const { ask, clock } = rig({ maxConcurrentPerReplica: 1, maxQueue: 4 });
    const early = ask("e");
    expect(early.details).toBeUndefined();
    let running = early;
    // One ends each 2 s.
    for (let i = 0; i < 6; i++) {
      const next = ask(`n${i}`);
      await clock.pass(2000);
      await running.end();
      running = next;
    }
    for (let i = 0; i < 4; i++) void ask(`q${i}`);
    const refused = ask("beyond");
    await settled();
    expect(refused.details).toMatchObject({ reason: "queue full" });
    expect(refused.details!.retryAfterS).toBeGreaterThanOrEqual(6);
    expect(refused.details!.retryAfterS).toBeLessThanOrEqual(8);
  });

  it("admit() takes a tenant with fewer waiting into a full queue, and refuses the last of the one with the most", async () => {
    const { ask, order } = rig({ maxConcurrentPerReplica: 1, maxQueue: 3 });
    const flood = Array.from({ length: 4 }, (_, i) => ask(`flood${i}`, {}, { name: "flood", keyId: "flood" }));
    const light = ask("light", {}, { name: "light", keyId: "light" });
    const more = ask("more", {}, { name: "flood", keyId: "flood" });
    await settled();
    expect([flood[3]!.details?.reason, more.details?.reason, light.error]).toEqual([
      "queue full",
      "queue full",
      undefined,
    ]);
    for (const each of [flood[0]!, light, flood[1]!, flood[2]!]) await each.end();
    expect(order).toEqual(["flood0", "light", "flood1", "flood2"]);
  });

  it("admit() refuses at once whoever would wait longer than ttft_slo or its own deadline", async () => {
    const { ask, clock, admissions } = rig({ maxConcurrentPerReplica: 1, ttftSloMs: 5000 });
    let running = ask("e");
    for (let i = 0; i < 6; i++) {
      const next = ask(`n${i}`);
      await clock.pass(2000);
      await running.end();
      running = next;
    }
    const waits = [ask("w1"), ask("w2")];
    const late = ask("late");
    const hasty = ask("hasty", { "x-cgn-deadline-ms": "500" });
    await settled();
    expect(late.details).toMatchObject({ reason: "predicted TTFT", retryAfterS: 1 });
    expect(hasty.details).toMatchObject({ reason: "deadline" });
    expect(waits.map(({ error }) => error)).toEqual([undefined, undefined]);
    expect(admissions.queued("m")).toBe(2);
  });

  it("admit() refuses whoever waited until its limit, and keeps nothing of it", async () => {
    const { ask, clock, admissions, order } = rig({ maxConcurrentPerReplica: 1, queueTimeoutMs: 1000 });
    const first = ask("first");
    const second = ask("second");
    const third = ask("third", { "x-cgn-deadline-ms": "300" });
    await clock.pass(400);
    await settled();
    expect(third.details).toMatchObject({ reason: "deadline" });
    await clock.pass(600);
    await settled();
    expect(second.details).toMatchObject({ reason: "queue timeout" });
    const last = ask("last");
    last.exchange.onLeft?.();
    await last.done;
    expect(isCgnError(last.error, "CALLER_LEFT")).toBe(true);
    await first.end();
    expect([admissions.running("m"), admissions.queued("m"), order]).toEqual([0, 0, ["first"]]);
  });

  it("limit() binds those who come later, and lets in whom the new one has places for", async () => {
    const { ask, admissions, order } = rig({ maxConcurrentPerReplica: 1 });
    void ask("a");
    void ask("b");
    await settled();
    admissions.limit({ maxConcurrentPerReplica: 2 });
    await settled();
    expect([order, admissions.running("m")]).toEqual([["a", "b"], 2]);
  });
});

describe("ownPriority()", () => {
  const of = (text: string | undefined, subject: Partial<Subject> = {}) =>
    ownPriority({
      req: { headers: text === undefined ? {} : { "x-cgn-priority": text } } as unknown as Exchange["req"],
      subject: { ...ANONYMOUS, ...subject },
    });

  it("is 0 without a header, and within bounds with one", () => {
    expect([of(undefined), of("3"), of("-2"), of("999"), of("-999")]).toEqual([0, 3, -2, 10, -10]);
    expect(of("7", { priority: 2 })).toBe(2);
  });

  it.each(["high", "1.5", "", "1e3", "9999999999"])('throws REQUEST_INVALID for "%s"', (text) => {
    expect(() => of(text)).toThrow(/Cannot take header x-cgn-priority/);
  });
});
