import { createHmac, generateKeyPairSync, type KeyObject } from "node:crypto";
import { exportJWK, SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import { looksLikeToken, type OidcSettings, OidcVerifier } from "./oidc.ts";
import { handClock } from "./testing/hand-clock.ts";

const ISSUER = "https://issuer.example.com/realm";
const pairs = {
  k1: generateKeyPairSync("rsa", { modulusLength: 2048 }),
  k2: generateKeyPairSync("rsa", { modulusLength: 2048 }),
};
type Kid = keyof typeof pairs;

async function jwksOf(...kids: Kid[]): Promise<object> {
  const keys = await Promise.all(
    kids.map(async (kid) => ({ ...(await exportJWK(pairs[kid].publicKey)), kid, use: "sig" })),
  );
  return { keys };
}

/** An issuer that can be changed and taken away. */
async function rig(over: Partial<OidcSettings> = {}) {
  const clock = handClock();
  const issuer = { jwks: await jwksOf("k1"), down: false, asked: [] as string[] };
  const fetchJson = async (url: string): Promise<unknown> => {
    issuer.asked.push(url);
    if (issuer.down) throw new Error(`${url} does not answer`);
    if (url.endsWith("/.well-known/openid-configuration")) return { issuer: ISSUER, jwks_uri: `${ISSUER}/keys` };
    return issuer.jwks;
  };
  const settings: OidcSettings = {
    issuer: ISSUER,
    audience: "cgn",
    jwksTtlMs: 600_000,
    algorithms: ["RS256"],
    leewayMs: 30_000,
    subjectClaim: "sub",
    scopesClaim: "scope",
    modelsClaim: "models",
    ...over,
  };
  const verifier = new OidcVerifier(settings, { clock, log: SILENT_LOG, fetchJson });
  const seconds = (): number => Math.floor(clock.wall() / 1000);
  const sign = (claims: object = {}, kid: Kid = "k1", header: object = {}): Promise<string> =>
    new SignJWT({ iss: ISSUER, aud: "cgn", sub: "alice", exp: seconds() + 300, ...claims })
      .setProtectedHeader({ alg: "RS256", kid, ...header })
      .sign(pairs[kid].privateKey);
  const verify = async (token: string) => verifier.verify(token);
  const said = (token: string): Promise<string> =>
    verify(token).then(
      () => "accepted",
      (e: Error & { code: string }) => `${e.code} ${e.message}`,
    );
  return { clock, issuer, verifier, sign, verify, said, seconds };
}

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

describe("OidcVerifier", () => {
  it("makes a subject of a token's claims", async () => {
    const { sign, verify } = await rig({ modelsClaim: "cgn.models" });
    const claims = { scope: "openid cgn:inference cgn:admin cgn:root", cgn: { models: ["qwen*"] } };
    expect(await verify(await sign(claims))).toMatchObject({
      name: "alice",
      keyId: "oidc:alice",
      authenticated: true,
      scopes: new Set(["inference", "admin"]),
      models: ["qwen*"],
      priority: 0,
    });
    expect((await verify(await sign({ scope: "openid profile" }))).scopes).toEqual(new Set(["inference"]));
    // Scopes of ours that are all unknown open nothing.
    expect((await verify(await sign({ scope: "cgn:root" }))).scopes).toEqual(new Set());
  });

  it("believes a proved token without another signature check, until it expires", async () => {
    const { sign, verifier, clock } = await rig();
    const token = await sign();
    await verifier.verify(token);
    expect(verifier.verify(token)).not.toBeInstanceOf(Promise);
    clock.advance(300_000 + 30_000);
    await expect(verifier.verify(token)).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  });

  it("takes clocks that differ by the leeway", async () => {
    const { sign, said, seconds } = await rig();
    expect(await said(await sign({ exp: seconds() - 29 }))).toBe("accepted");
    expect(await said(await sign({ exp: seconds() - 31 }))).toMatch(/it has expired/);
    expect(await said(await sign({ nbf: seconds() + 29 }))).toBe("accepted");
    expect(await said(await sign({ nbf: seconds() + 60 }))).toMatch(/claim "nbf"/);
  });

  it.each([
    ["another audience", { aud: "other" }, /claim "aud"/],
    ["another issuer", { iss: "https://evil.example.com" }, /claim "iss"/],
    ["no expiry", { exp: undefined }, /claim "exp"/],
    ["no subject", { sub: undefined }, /it has no "sub"/],
    ["a subject that is no text", { sub: { a: 1 } }, /no "sub"|claim "sub"|no signed/],
    ["a subject with a line end", { sub: "a\nb" }, /it has no "sub"/],
  ])("refuses %s", async (_what, claims, wanted) => {
    const { sign, said } = await rig();
    expect(await said(await sign(claims as object))).toMatch(wanted);
  });

  it("refuses what was never signed, or by somebody else", async () => {
    const { sign, said } = await rig();
    const [head, body, signature] = (await sign()).split(".") as [string, string, string];
    expect(await said(`${b64({ alg: "none" })}.${body}.`)).toMatch(/UNAUTHENTICATED/);
    expect(await said(`${head}.${body}.`)).toMatch(/UNAUTHENTICATED/);
    expect(await said(`${head}.${b64({ sub: "root", iss: ISSUER, aud: "cgn", exp: 9e9 })}.${signature}`)).toMatch(
      /signature is wrong/,
    );
    const foreign = await new SignJWT({ iss: ISSUER, aud: "cgn", sub: "alice", exp: 9e9 })
      .setProtectedHeader({ alg: "RS256", kid: "k1" })
      .sign(pairs.k2.privateKey);
    expect(await said(foreign)).toMatch(/signature is wrong/);
  });

  it("refuses HS256 with the public key as the secret", async () => {
    const { sign, said } = await rig();
    const [, body] = (await sign()).split(".") as [string, string];
    const head = b64({ alg: "HS256", kid: "k1" });
    const secrets = [
      pairs.k1.publicKey.export({ type: "spki", format: "pem" }) as string,
      pairs.k1.publicKey.export({ type: "spki", format: "der" }),
    ];
    for (const secret of secrets) {
      const mac = createHmac("sha256", secret).update(`${head}.${body}`).digest("base64url");
      expect(await said(`${head}.${body}.${mac}`)).toMatch(/algorithm is not allowed/);
    }
  });

  it("takes no key from a token's own header, and asks no address that it names", async () => {
    const { said, issuer, seconds } = await rig();
    const jwk = await exportJWK(pairs.k2.publicKey);
    const forged = (header: object): Promise<string> =>
      new SignJWT({ iss: ISSUER, aud: "cgn", sub: "root", exp: seconds() + 60 })
        .setProtectedHeader({ alg: "RS256", ...header })
        .sign(pairs.k2.privateKey as KeyObject);
    const headers = [
      { jwk },
      { kid: "k2", jku: "https://evil.example.com/keys" },
      { kid: "../../../dev/null", x5u: "https://evil.example.com" },
      { kid: "k1' OR '1'='1" },
      { kid: "__proto__" },
      {},
    ];
    for (const header of headers) expect(await said(await forged(header))).toMatch(/UNAUTHENTICATED/);
    expect(issuer.asked.every((url) => url.startsWith(ISSUER))).toBe(true);
  });

  it("refuses huge and broken tokens without asking the issuer", async () => {
    const { said, issuer } = await rig();
    const asked = issuer.asked.length;
    expect(await said(`eyJ${"a".repeat(20_000)}.e30.x`)).toMatch(/more than 16384 bytes/);
    for (const text of ["eyJ.eyJ.x", "eyJhbGciOiJSUzI1NiJ9..", `${b64({ alg: "RS256", crit: ["x"], x: 1 })}.e30.AAAA`])
      expect(await said(text)).toMatch(/UNAUTHENTICATED/);
    expect(issuer.asked.length - asked).toBeLessThanOrEqual(2);
  });

  it("finds a new key when a token names it, at most once in ten seconds", async () => {
    const { sign, said, issuer, clock } = await rig();
    await said(await sign());
    issuer.jwks = await jwksOf("k1", "k2");
    clock.advance(10_000);
    expect(await said(await sign({}, "k2"))).toBe("accepted");
    const asked = issuer.asked.length;
    for (let i = 0; i < 50; i++) expect(await said(await sign({}, "k1", { kid: `x${i}` }))).toMatch(/no such key/);
    expect(issuer.asked.length).toBe(asked);
  });

  it("a key that was taken out counts no more after the next reading, nor do tokens proved by it", async () => {
    const { sign, said, issuer, clock, verifier, seconds } = await rig();
    const token = await sign({ exp: seconds() + 3_600 });
    expect(await said(token)).toBe("accepted");
    issuer.jwks = await jwksOf("k2");
    clock.advance(600_000);
    await (verifier.verify(await sign({}, "k2")) as Promise<unknown>);
    expect(await said(token)).toMatch(/no such key/);
  });

  it("goes on with the keys that it has while the issuer is gone, and says so", async () => {
    const { sign, said, issuer, clock, verifier } = await rig();
    expect(await said(await sign())).toBe("accepted");
    issuer.down = true;
    for (let i = 0; i < 5; i++) {
      clock.advance(600_000);
      expect(await said(await sign())).toBe("accepted");
    }
    expect(verifier.status()).toMatchObject({ keys: 1, problem: expect.stringContaining("does not answer") });
  });

  it("without any key answers that it cannot check, not that the token is wrong, and comes back", async () => {
    const { issuer, sign, said, clock, verifier } = await rig();
    issuer.down = true;
    expect(await said(await sign())).toMatch(/^DEPENDENCY_UNREACHABLE/);
    issuer.down = false;
    clock.advance(10_000);
    expect(await said(await sign())).toBe("accepted");
    expect(verifier.status().problem).toBeUndefined();
    verifier.close();
  });

  it("refuses a key document with shared secrets only, or of another issuer", async () => {
    const { issuer, sign, said } = await rig();
    issuer.jwks = { keys: [{ kty: "oct", k: "c2VjcmV0", kid: "k1" }] };
    expect(await said(await sign())).toMatch(/^DEPENDENCY_UNREACHABLE/);
    const other = await rig({ issuer: "https://other.example.com" });
    expect(await other.said(await other.sign())).toMatch(/^DEPENDENCY_UNREACHABLE/);
  });
});

describe("looksLikeToken()", () => {
  it("tells tokens from keys", () => {
    expect(looksLikeToken("eyJhbGciOiJub25lIn0.e30.")).toBe(true);
    for (const key of ["cgn-00", "a.b.c", "eyJ", "eyJ.a"]) expect(looksLikeToken(key)).toBe(false);
  });
});
