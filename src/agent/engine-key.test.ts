import { describe, expect, it } from "vitest";
import { engineKey } from "./engine-key.ts";

const probe = { apiKey: { flags: ["--api-key", "--api_key"], variables: ["ENGINE_KEY"] } };
const plan = (argv: readonly string[], env: Parameters<typeof engineKey>[1]["env"] = {}) => ({ argv, env });

describe("engineKey()", () => {
  // Broke: questions to engines that were started with a key were answered with 401.
  it.each([
    [["serve", "m", "--api-key", "k1", "k2"], {}, {}, "k1"],
    [["serve", "m", "--api_key=k1"], {}, {}, "k1"],
    [["serve", "m", "--api-key", "k1"], { ENGINE_KEY: "k2" }, {}, "k1"],
    [["serve", "m"], { ENGINE_KEY: "k2" }, { ENGINE_KEY: "k3" }, "k2"],
    [["serve", "m"], { ENGINE_KEY: { secretFrom: "env:OTHER" } }, { OTHER: "k4" }, "k4"],
    [["serve", "m"], { ENGINE_KEY: { secretFrom: "env:NOT_THERE" } }, {}, undefined],
    [["serve", "m"], {}, { ENGINE_KEY: "k3" }, "k3"],
    [["serve", "m", "--api-key"], {}, {}, undefined],
  ])("finds in %j, plan %j, environment %j: %s", (argv, planned, env, key) => {
    expect(engineKey(probe, plan(argv, planned), env)).toBe(key);
  });

  it("finds none for an engine that takes none", () => {
    expect(engineKey({}, plan(["--api-key", "k"]), {})).toBeUndefined();
  });
});
