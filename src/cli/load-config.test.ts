import { describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { loadOptions } from "./load-config.ts";

const CLI = { env: {}, cwd: "/nowhere" };

describe("loadOptions()", () => {
  it("loadOptions() reads --set at the first = outside quotes, and lets shortcuts win", () => {
    const set = ["router.policy=random", 'models."a=b".path=/x=y', "router.node_id="];
    const shortcuts = { "router.policy": { flag: "--policy", value: "ttft" } };
    const options = loadOptions({ config: "c.toml", set, kvOffload: "nixl" }, CLI, shortcuts);
    expect(options.path).toBe("c.toml");
    expect(options.overrides).toEqual({ "router.policy": "ttft", 'models."a=b".path': "/x=y", "router.node_id": "" });
    expect(options.pick).toEqual({ kvOffload: "nixl" });
    expect([options.flagOf?.("router.policy"), options.flagOf?.("router.node_id")]).toEqual([
      "--policy",
      "--set router.node_id",
    ]);
  });

  it("loadOptions() refuses a --set without =", () => {
    try {
      loadOptions({ set: ["router.policy"] }, CLI);
      expect.unreachable();
    } catch (e) {
      expect(isCgnError(e, "BAD_INVOCATION")).toBe(true);
      expect((e as Error).message).toBe(
        'Cannot read --set "router.policy": it has no "=". Write --set KEY=VALUE, for example --set router.policy=round_robin',
      );
    }
  });
});
