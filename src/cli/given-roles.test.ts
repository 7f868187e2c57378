import { expect, it } from "vitest";
import type { EngineSettings } from "../config/settings.ts";
import type { Role } from "../core/engine-kind.ts";
import { GivenRoles } from "./given-roles.ts";

const written = (...roles: Role[]) => ({
  engines: roles.map((role, n) => ({ url: `http://h:${n}`, role, path: ["engines", n] }) as unknown as EngineSettings),
});
const rolesOf = (given: GivenRoles, file: ReturnType<typeof written>) =>
  Object.entries(given.shortcuts(file)).map(([key, { value }]) => `${key}=${value}`);

it("GivenRoles keeps a role until the configuration gives the engine another one", () => {
  const file = written("prefill", "decode");
  const given = new GivenRoles().with([{ url: "http://h:0" }], "decode", file);
  expect(rolesOf(given, file)).toEqual(["engines[0].role=decode", "engines[1].role=decode"]);
  expect(given.stillGiven(file).isEmpty).toBe(false);
  // The file's engines in another order are the same engines.
  const turned = { engines: [...file.engines].reverse().map((each, n) => ({ ...each, path: ["engines", n] })) };
  expect(rolesOf(given.stillGiven(turned), turned)).toEqual(["engines[0].role=decode", "engines[1].role=decode"]);
  expect(given.stillGiven(written("decode", "decode")).isEmpty).toBe(true);
  expect(given.stillGiven(written("both", "decode")).isEmpty).toBe(true);
  expect(given.with([{ url: "http://h:0" }], "prefill", file).isEmpty).toBe(true);
});
