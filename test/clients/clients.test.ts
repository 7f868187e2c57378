import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allCases } from "./all-cases.ts";
import { type Row, runCases } from "./cases.ts";
import { type ClientFleet, startFleet } from "./fleet.ts";

/** The quick form of `npm run test:clients`: without Python and without a real engine. */
describe("real clients before a router", () => {
  let fleet: ClientFleet;
  beforeAll(async () => {
    fleet = await startFleet(undefined);
  }, 200_000);
  afterAll(async () => void (await fleet?.close()));

  const curl = spawnSync("curl", ["--version"]).status === 0 ? ["curl"] : [];
  it.each(["openai (Node)", "anthropic (Node)", ...curl])(
    "%s gets what it wants from each engine",
    async (client) => {
      const rows: readonly Row[] = await runCases(allCases(fleet).filter((c) => c.client === client));
      expect(rows.length).toBeGreaterThan(10);
      expect(rows.filter((row) => !row.ok)).toEqual([]);
    },
    90_000,
  );
});
