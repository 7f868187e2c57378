import { describe, expect, it } from "vitest";
import { hashApiKey, hashChosenKey, newApiKey } from "./api-key.ts";
import { parseKeyLines } from "./key-lines.ts";
import { KeyRing } from "./key-ring.ts";
import { handClock } from "./testing/hand-clock.ts";

describe("KeyRing", () => {
  it("finds a made key at once, and nothing else", () => {
    const key = newApiKey();
    const ring = new KeyRing(parseKeyLines(`${hashApiKey(key)} name=a`).entries, handClock());
    expect(ring.find(key)).toMatchObject({ subject: { name: "a", authenticated: true, priority: 0 } });
    for (const wrong of ["", "cgn-", newApiKey(), key.slice(0, -1), `${key}0`, hashApiKey(key), "x".repeat(100_000)])
      expect(ring.find(wrong)).toBeUndefined();
  });

  it("proves a chosen key once, and never tries a made key's form against it", async () => {
    const line = `${await hashChosenKey("a good passphrase", Buffer.alloc(16, 1))} name=bob`;
    const ring = new KeyRing(parseKeyLines(line).entries, handClock());
    const first = ring.find("a good passphrase");
    expect(first).toBeInstanceOf(Promise);
    expect((await first)?.subject.name).toBe("bob");
    expect(ring.find("a good passphrase")).not.toBeInstanceOf(Promise);
    expect(ring.find(newApiKey())).toBeUndefined();
    expect(await ring.find("a bad passphrase")).toBeUndefined();
  });

  it("refuses more guesses than 10 at once and one a second", async () => {
    const line = `scrypt:14:1:1:${"A".repeat(22)}:${"B".repeat(43)}`;
    const clock = handClock();
    const ring = new KeyRing(parseKeyLines(line).entries, clock);
    const tried = await Promise.allSettled(Array.from({ length: 14 }, (_, i) => ring.find(`guess ${i}`)));
    expect(tried.filter(({ status }) => status === "rejected")).toHaveLength(4);
    clock.advance(1_000);
    expect(await ring.find("guess again")).toBeUndefined();
    await expect(ring.find("and again")).rejects.toMatchObject({ code: "RATE_LIMITED" });
  });
});
