import { describe, it } from "vitest";
import { ALL_CASES } from "./all-cases.ts";
import { runCase } from "./rig.ts";

// The fault matrix (`npm run test:faults` prints it): each case on sockets, and nothing left of it afterwards.
describe.concurrent.each(Object.entries(ALL_CASES))("faults: %s", (_phase, cases) => {
  it.each(cases)("$name: $sees", { timeout: 90_000 }, async (test) => {
    await runCase(test);
  });
});
