import { describe, expect, it } from "vitest";
import { CgnError, CODES, isCgnError, toCgnError } from "./errors.ts";

describe("CODES", () => {
  it("CODES give statuses and exit codes that exist", () => {
    for (const [code, row] of Object.entries(CODES)) {
      expect(row.http, code).toBeGreaterThanOrEqual(400);
      expect(row.http, code).toBeLessThan(600);
      expect([1, 2, 3, 4, 5, 6, 7, 8, 9, 130], code).toContain(row.exit);
    }
  });

  it("CODES never let a user's own mistake be tried again; only a limit is over after a while", () => {
    for (const [code, row] of Object.entries(CODES)) {
      if (row.blame === "user") expect(row.retry, code).toBe(code === "RATE_LIMITED");
    }
  });
});

describe("isCgnError()", () => {
  const error = new CgnError("PORT_IN_USE", "Cannot listen on 1", { port: 1 });

  it("isCgnError() tells codes apart", () => {
    expect(isCgnError(error)).toBe(true);
    expect(isCgnError(error, "PORT_IN_USE")).toBe(true);
    expect(isCgnError(error, "BUG")).toBe(false);
  });

  it("isCgnError() knows an error of another copy of cgn, and no plain object", () => {
    const other = Object.assign(new Error("x"), { name: "CgnError", code: "BUG" });
    expect(isCgnError(other, "BUG")).toBe(true);
    expect(isCgnError({ name: "CgnError", code: "BUG" })).toBe(false);
  });
});

describe("toCgnError()", () => {
  it("toCgnError() leaves a CgnError as it is", () => {
    const error = new CgnError("BUG", "x", {});
    expect(toCgnError(error)).toBe(error);
  });

  it("toCgnError() takes anything else for a bug and keeps it as the cause", () => {
    const cause = new TypeError("x is not a function");
    const made = toCgnError(cause);
    expect([made.code, made.message, made.cause]).toEqual(["BUG", "Unexpected failure: x is not a function", cause]);
    expect(toCgnError("text").message).toBe("Unexpected failure: text");
  });
});
