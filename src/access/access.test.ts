import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { SILENT_LOG } from "../core/log.ts";
import { openAccess, requireScope } from "./access.ts";
import { hashApiKey, newApiKey } from "./api-key.ts";
import { parseKeyLines } from "./key-lines.ts";
import { ANONYMOUS, type Subject } from "./subject.ts";
import { handClock } from "./testing/hand-clock.ts";

const KEY = newApiKey();

async function open(oidc = false) {
  return openAccess(
    {
      auth: {
        enabled: true,
        keys: parseKeyLines(`${hashApiKey(KEY)} name=a expires=2027-06-01`).entries,
        ...(oidc
          ? {
              oidc: {
                issuer: "http://127.0.0.1:9",
                jwksTtlMs: 600_000,
                algorithms: ["RS256"],
                leewayMs: 0,
                subjectClaim: "sub",
                scopesClaim: "scope",
                modelsClaim: "models",
              },
            }
          : {}),
      },
      rateLimit: { enabled: false, rps: 50, burst: 200 },
      cluster: "test",
    },
    { clock: handClock(Date.UTC(2027, 0, 1)), log: SILENT_LOG },
  );
}

describe("identify()", () => {
  it("lets nobody in by chance: any headers without the key are refused, and with nothing but our errors", async () => {
    const access = await open(true);
    const text = fc.oneof(
      fc.string({ maxLength: 60 }),
      fc.constantFrom(
        "Bearer",
        "bearer ",
        "Bearer \t",
        "Bearer cgn-",
        "Basic eDp5",
        "eyJ.a.b",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
      ),
      fc.string({ maxLength: 40 }).map((rest) => `Bearer ${rest}`),
      // Nearly the key.
      fc.nat(KEY.length - 1).map((at) => `Bearer ${KEY.slice(0, at)}x${KEY.slice(at + 1)}`),
      fc.constantFrom(`Bearer${KEY}`, `Token ${KEY}`, `Bearer ${KEY},`, `Bearer ${KEY} x`, `Bearer Bearer ${KEY}`, KEY),
    );
    const headers = fc.record(
      { authorization: text, "x-api-key": text.filter((t) => t !== KEY) },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(headers, async (sent) => {
        let found: Subject | undefined;
        try {
          found = await access.identify(sent, Object.entries(sent).flat());
        } catch (e) {
          expect(isCgnError(e)).toBe(true);
          expect(["UNAUTHENTICATED", "DEPENDENCY_UNREACHABLE"]).toContain((e as { code: string }).code);
          expect((e as Error).message).not.toContain(KEY);
        }
        expect(found).toBeUndefined();
      }),
      { numRuns: 1_000 },
    );
    access.close();
  });

  it("takes the key in each of its two places, until it expires", async () => {
    const clock = handClock(Date.UTC(2027, 4, 31));
    const access = await openAccess(
      {
        auth: { enabled: true, keys: parseKeyLines(`${hashApiKey(KEY)} name=a expires=2027-06-01`).entries },
        rateLimit: { enabled: false, rps: 50, burst: 200 },
        cluster: "test",
      },
      { clock, log: SILENT_LOG },
    );
    for (const sent of [{ authorization: `Bearer ${KEY}` }, { authorization: `BEARER  ${KEY} ` }, { "x-api-key": KEY }])
      expect(await access.identify(sent, Object.entries(sent).flat())).toMatchObject({ name: "a" });
    clock.advance(24 * 3_600_000);
    expect(() => access.identify({ "x-api-key": KEY }, [])).toThrow(/the key has expired/);
  });
});

describe("requireScope()", () => {
  it("names the scope that is missing", () => {
    requireScope(ANONYMOUS, "inference", "/x");
    expect(() => requireScope(ANONYMOUS, "admin", "/x")).toThrow(/lacks the scope "admin"/);
  });
});
