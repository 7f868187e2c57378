import { expect, it } from "vitest";
import { inheritedEnv } from "./inherited-env.ts";

const ENV = { PATH: "/bin", LC_ALL: "C", HF_TOKEN: "t", HF_HOME: "/m", SECRET: "s", HOMEPAGE: "x" };

it("inheritedEnv() gives all, the usual few, or those and the named ones", () => {
  expect(inheritedEnv(ENV, true)).toBe(ENV);
  expect(inheritedEnv(ENV, false)).toEqual({ PATH: "/bin", LC_ALL: "C" });
  expect(inheritedEnv(ENV, ["HF_*", "OTHER"])).toEqual({ PATH: "/bin", LC_ALL: "C", HF_TOKEN: "t", HF_HOME: "/m" });
});
