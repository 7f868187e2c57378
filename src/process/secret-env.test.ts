import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { resolveEnv } from "./secret-env.ts";

it("resolveEnv() lays the plan over the base and reads secrets from variables and files", () => {
  const dir = mkdtempSync(join(tmpdir(), "cgn-env-"));
  const file = join(dir, "key");
  writeFileSync(file, "from-file\n");
  const env = resolveEnv(
    { HOME: "/h", TOKEN: "from-env", GONE: undefined },
    {
      HOME: "/other",
      A: { secretFrom: "TOKEN" },
      B: { secretFrom: "env:TOKEN" },
      C: { secretFrom: file },
      D: { secretFrom: `file:${file}` },
    },
  );
  rmSync(dir, { recursive: true });
  expect(env).toEqual({
    HOME: "/other",
    TOKEN: "from-env",
    A: "from-env",
    B: "from-env",
    C: "from-file",
    D: "from-file",
  });
});

it("resolveEnv() names a secret that is missing, and where it should be", () => {
  expect(() => resolveEnv({}, { KEY: { secretFrom: "file:/no/such" } })).toThrow(
    'Cannot set KEY: the secret "file:/no/such" cannot be read',
  );
  expect(() => resolveEnv({ EMPTY: "" }, { KEY: { secretFrom: "EMPTY" } })).toThrow("is not set");
});
