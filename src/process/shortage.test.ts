import { describe, expect, it } from "vitest";
import { CgnError } from "../core/errors.ts";
import { startError } from "./exit-cause.ts";
import { isShortage } from "./shortage.ts";

const emfile = Object.assign(new Error("spawn /bin/sh EMFILE"), { code: "EMFILE" });

describe("startError()", () => {
  it("names what is missing and the limit to raise, and keeps it a shortage", () => {
    // Broke: a restart without file descriptors left was told as a bug of ours.
    const error = startError("n/m", emfile);
    expect(error.code).toBe("ENGINE_NOT_READY");
    expect(error.message).toMatch(/^Cannot start n\/m: no file descriptors left .*EMFILE.*ulimit -n/);
    expect(isShortage(error)).toBe(true);
  });

  it("leaves other failures as they are", () => {
    const refused = new CgnError("PORT_IN_USE", "Cannot start", {}) as CgnError;
    expect(startError("n/m", refused)).toBe(refused);
    expect(startError("n/m", new TypeError("x is undefined")).code).toBe("BUG");
  });
});

describe("isShortage()", () => {
  it("looks along the causes, and not for other codes", () => {
    const wrapped = new CgnError("STORAGE_UNUSABLE", "Cannot write", {}, { cause: emfile });
    expect(isShortage(wrapped)).toBe(true);
    expect(isShortage(Object.assign(new Error(), { code: "EACCES" }))).toBe(false);
    expect(isShortage("EMFILE")).toBe(false);
  });
});
