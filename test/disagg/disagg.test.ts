import { describe, it } from "vitest";
import { PAIR_CASES } from "./all-cases.ts";
import { runPairCase } from "./rig.ts";

// Both legs of split requests (`npm run test:disagg` prints the table): each case on sockets, and nothing left of it afterwards.
describe.concurrent.each(Object.entries(PAIR_CASES))("split requests: %s", (_part, cases) => {
  it.each(cases)("$name: $sees", { timeout: 90_000 }, async (test) => {
    await runPairCase(test);
  });
});
