import { defineConfig } from "vitest/config";

/** Units sit beside the code; `test/` holds architecture, end-to-end, fault and docs tests. */
export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    pool: "forks",
    testTimeout: 20_000,
    hookTimeout: 60_000,
    // Two cores: end-to-end tests start real engines, and more workers than cores only make them late.
    maxWorkers: 2,
  },
});
