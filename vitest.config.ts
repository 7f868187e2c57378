import { defineConfig } from "vitest/config";

/** Units sit beside the code; `test/` holds architecture, end-to-end, fault and docs tests. */
export default defineConfig({
  test: {
    pool: "forks",
    // A hang is found all the same; a busy machine is no fault.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      { extends: true, test: { name: "units", include: ["src/**/*.test.ts"], maxWorkers: 2 } },
      {
        extends: true,
        test: {
          name: "end to end",
          include: ["test/**/*.test.ts"],
          // They start real daemons and engines, whose ports are chosen by rules: two files at once could meet.
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
          // A port that was free may be somebody's a moment later; whatever fails twice is a fault.
          retry: 1,
        },
      },
    ],
  },
});
