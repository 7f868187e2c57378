import { describe, expect, it } from "vitest";
import { UsageLedger } from "./usage-ledger.ts";

describe("UsageLedger", () => {
  it("counts subjects beyond its bound together", () => {
    const ledger = new UsageLedger(2);
    for (const name of ["a", "b", "c", "d", "a"]) ledger.of({ name }).requests++;
    expect(ledger.rows().map((u) => [u.subject, u.requests])).toEqual([
      ["a", 2],
      ["other", 2],
      ["b", 1],
    ]);
  });

  it("keeps two keys of one name apart", () => {
    const ledger = new UsageLedger();
    ledger.of({ name: "a", keyId: "key:1" }).promptTokens += 1;
    ledger.of({ name: "a", keyId: "key:2" }).promptTokens += 2;
    expect(ledger.rows().map(({ keyId, promptTokens }) => [keyId, promptTokens])).toEqual([
      ["key:2", 2],
      ["key:1", 1],
    ]);
  });
});
