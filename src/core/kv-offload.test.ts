import { describe, expect, it } from "vitest";
import { type CgnError, isCgnError } from "./errors.ts";
import { DEFAULT_KV_OFFLOAD, formatKvOffload, KV_OFFLOADS, parseKvOffload } from "./kv-offload.ts";

describe("KvOffload", () => {
  it("KV_OFFLOADS holds the contract's names in its order, none by default", () => {
    expect(KV_OFFLOADS).toEqual(["none", "nixl", "lmcache", "hicache", "kvbm"]);
    expect(DEFAULT_KV_OFFLOAD).toBe("none");
  });

  it.each(KV_OFFLOADS)("parseKvOffload() undoes formatKvOffload() for %s", (offload) => {
    expect(parseKvOffload(formatKvOffload(offload))).toBe(offload);
  });

  it.each(["", "NIXL", "Lmcache", " nixl", "nixl ", "mooncake", "none\n", "0", "undefined"])(
    "parseKvOffload() refuses %j and lists what is right",
    (text) => {
      let thrown: unknown;
      try {
        parseKvOffload(text);
      } catch (e) {
        thrown = e;
      }
      expect(isCgnError(thrown, "CONFIG_INVALID")).toBe(true);
      const { message, details } = thrown as CgnError<"CONFIG_INVALID">;
      expect(message).toBe(
        `Cannot read kv_offload: "${text}" is no KV offload. Use one of none, nixl, lmcache, hicache, kvbm`,
      );
      expect(details.problems).toMatchObject([{ severity: "error", path: "engine.kv_offload" }]);
    },
  );
});
