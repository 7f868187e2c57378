import { describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { MemoryLimitStore } from "./limit-store.ts";
import { Limits, type RateLimitSettings } from "./limits.ts";
import type { Subject, SubjectLimits } from "./subject.ts";
import { handClock } from "./testing/hand-clock.ts";
import type { Ticket } from "./ticket.ts";

const OFF: RateLimitSettings = { enabled: false, rps: 50, burst: 200 };

function subject(name: string, limits: SubjectLimits = {}): Subject {
  return { name, authenticated: true, keyId: `key:${name}`, scopes: new Set(["inference"]), limits };
}

function rig(settings: Partial<RateLimitSettings> = {}) {
  const clock = handClock();
  const store = new MemoryLimitStore(clock);
  const limits = new Limits({ ...OFF, ...settings }, store);
  const admit = (who: Subject): Ticket => limits.admit(who) as Ticket;
  const refusal = (who: Subject): { retryAfterS: number; headers: Record<string, string>; message: string } => {
    try {
      admit(who);
    } catch (e) {
      if (isCgnError(e, "RATE_LIMITED")) return { ...(e.details as never as object), message: e.message } as never;
      throw e;
    }
    throw new Error("it was let in");
  };
  return { clock, store, limits, admit, refusal };
}

describe("Limits of subjects alone", () => {
  it("do not bring the limit of all together", () => {
    const { admit } = rig({ enabled: true, limitsAll: false, rps: 1, burst: 1, rpmPerSubject: 100 });
    for (let i = 0; i < 50; i++) expect(admit(subject("a")).headers["x-ratelimit-limit-requests"]).toBe("100");
  });
});

describe("Limits", () => {
  it("limits nobody without a limit, and keeps nothing for him", () => {
    const { admit, store } = rig();
    for (let i = 0; i < 1_000; i++) expect(admit(subject(`s${i}`)).headers).toEqual({});
    expect(store.status().buckets).toBe(0);
  });

  it("holds all subjects together to rps and burst", () => {
    const { admit, refusal, clock } = rig({ enabled: true, rps: 2, burst: 3 });
    for (const name of ["a", "b", "c"]) admit(subject(name));
    expect(refusal(subject("d"))).toMatchObject({ retryAfterS: 1, headers: { "x-ratelimit-remaining-requests": "0" } });
    clock.advance(500);
    expect(admit(subject("d")).headers["x-ratelimit-limit-requests"]).toBe("3");
  });

  it("holds each subject to its own, and a key's own limit wins over the general one", () => {
    const { admit, refusal } = rig({ enabled: true, rps: 1_000, burst: 1_000, rpmPerSubject: 2 });
    const [a, b] = [subject("a"), subject("b", { rpm: 3 })];
    for (let i = 0; i < 2; i++) admit(a);
    for (let i = 0; i < 3; i++) admit(b);
    expect(refusal(a).message).toContain("2 requests a minute for this key");
    expect(refusal(b)).toMatchObject({ retryAfterS: 20, headers: { "x-ratelimit-limit-requests": "3" } });
  });

  it("a key's limits bind where the section is off", () => {
    const { admit, refusal } = rig();
    const a = subject("a", { rps: 0.5 });
    // 200 / 50: four seconds' worth at once.
    for (let i = 0; i < 2; i++) admit(a);
    expect(refusal(a).retryAfterS).toBe(2);
  });

  it("counts tokens when they are known: set aside by the prompt, paid by the engine's figures", () => {
    const { admit, refusal, clock } = rig();
    const a = subject("a", { tpm: 600 });
    const first = admit(a);
    first.reserve(500);
    expect(admit(a).headers["x-ratelimit-remaining-tokens"]).toBe("100");
    first.end(900);
    first.end(0);
    expect(refusal(a)).toMatchObject({ retryAfterS: 31, headers: { "x-ratelimit-remaining-tokens": "0" } });
    clock.advance(31_000);
    const next = admit(a);
    next.reserve(400);
    next.end(0);
    expect(admit(a).headers["x-ratelimit-remaining-tokens"]).toBe("10");
  });

  it("what is not known after the end stays as it was set aside", () => {
    const { admit } = rig();
    const a = subject("a", { tpm: 100 });
    const ticket = admit(a);
    ticket.reserve(40);
    ticket.end(undefined);
    expect(admit(a).headers["x-ratelimit-remaining-tokens"]).toBe("60");
  });

  it("holds a subject to its requests in flight, and gives each place back once", () => {
    const { admit, refusal, limits } = rig();
    const a = subject("a", { concurrent: 2 });
    const [one] = [admit(a), admit(a)];
    expect(refusal(a).message).toContain("2 requests at a time");
    one?.end(0);
    one?.end(0);
    admit(a);
    refusal(a);
    expect(limits.status().running).toBe(2);
  });

  it("a place is given back when the rate refuses", () => {
    const { admit, refusal, limits, clock } = rig();
    const a = subject("a", { concurrent: 1, rpm: 1 });
    admit(a).end(0);
    refusal(a);
    expect(limits.status().running).toBe(0);
    clock.advance(60_000);
    admit(a);
  });

  it("10,000 subjects are bounded in memory, and each still has its own", () => {
    const clock = handClock();
    const store = new MemoryLimitStore(clock, 1_000);
    const limits = new Limits({ ...OFF, enabled: true, rps: 1e6, burst: 1e6, rpmPerSubject: 1 }, store);
    for (let i = 0; i < 10_000; i++) limits.admit(subject(`s${i}`));
    expect(store.status().buckets).toBeLessThanOrEqual(1_000);
    expect(store.status().buckets).toBeGreaterThan(800);
    expect(() => limits.admit(subject("s9999"))).toThrow(/1 requests a minute/);
  });
});
