import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TransferRates } from "./transfer-rates.ts";

describe("TransferRates", () => {
  it("rate() is the prior before anything was seen", () => {
    const { baseMs, perTokenMs } = new TransferRates().rate();
    expect([baseMs, perTokenMs]).toEqual([expect.closeTo(20, 6), expect.closeTo(0.02, 9)]);
  });

  it("finds the line that hand-overs follow", () => {
    const rates = new TransferRates();
    for (let k = 0; k < 300; k++) rates.observe(100 * (k % 50), 5 + 0.1 * 100 * (k % 50));
    const { baseMs, perTokenMs } = rates.rate();
    expect(Math.abs(baseMs - 5)).toBeLessThan(1.5);
    expect(Math.abs(perTokenMs - 0.1)).toBeLessThan(0.005);
  });

  it("is not thrown off by one handshake of seconds", () => {
    const rates = new TransferRates();
    rates.observe(100, 2_000);
    for (let k = 0; k < 50; k++) rates.observe(100, 10);
    const { baseMs, perTokenMs } = rates.rate();
    expect(baseMs + 100 * perTokenMs).toBeLessThan(25);
  });

  it("never gives a negative or endless cost, whatever it is told", () => {
    const figure = fc.oneof(
      fc.double({ min: -10, max: 1e6 }),
      fc.constant(Number.NaN),
      fc.constant(Number.POSITIVE_INFINITY),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(figure, figure), { maxLength: 60 }), (seen) => {
        const rates = new TransferRates();
        for (const [tokens, ms] of seen) rates.observe(tokens, ms);
        const { baseMs, perTokenMs } = rates.rate();
        expect(baseMs >= 0 && perTokenMs >= 0 && Number.isFinite(baseMs + perTokenMs)).toBe(true);
      }),
    );
  });
});
