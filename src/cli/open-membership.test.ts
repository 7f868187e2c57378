import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { marksFile } from "./open-membership.ts";

const SETTINGS = {
  cluster: { name: "a/b" },
  agent: { stateDir: "/state" },
  router: { listenHttp: { host: "127.0.0.1", port: 8080 } },
} as unknown as Parameters<typeof marksFile>[0];

// A drain of "two" in one file drained "two" of a fresh one, on the same host.
describe("marksFile()", () => {
  it("is one for each configuration file, and stays with it", () => {
    const one = marksFile({ ...SETTINGS, file: "/one/cgn.toml" });
    expect(one).toMatch(/^\/state\/marks-a%2Fb-[0-9a-f]{12}\.json$/);
    expect(marksFile({ ...SETTINGS, file: "/two/cgn.toml" })).not.toBe(one);
    expect(marksFile({ ...SETTINGS, file: "cgn.toml" })).toBe(marksFile({ ...SETTINGS, file: resolve("cgn.toml") }));
    const moved = { listenHttp: { host: "127.0.0.1", port: 8081 } } as typeof SETTINGS.router;
    expect(marksFile({ ...SETTINGS, router: moved, file: "/one/cgn.toml" })).toBe(one);
    expect(marksFile({ ...SETTINGS, router: moved })).not.toBe(marksFile(SETTINGS));
  });
});
