import { generateKeyPairSync, X509Certificate } from "node:crypto";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import { describe, expect, it } from "vitest";
import { authorityProblem, createAuthority, issueCertificate } from "./certificates.ts";

const from = new Date();
const authority = createAuthority("cgn CA of prod", { from, days: 3_650 });

describe("issueCertificate()", () => {
  it("makes what the authority proves, for these names and addresses and no others", () => {
    const parent = new X509Certificate(authority.cert);
    const made = new X509Certificate(
      issueCertificate(authority, ["gpu1.lan", "10.0.0.5", "fd00::1:5", "::ffff:10.0.0.6"], { from, days: 90 }).cert,
    );
    expect(parent.ca).toBe(true);
    expect(made.ca).toBe(false);
    expect(made.checkIssued(parent)).toBe(true);
    expect(made.verify(parent.publicKey)).toBe(true);
    expect(made.checkHost("gpu1.lan")).toBe("gpu1.lan");
    expect(made.checkHost("gpu2.lan")).toBeUndefined();
    for (const ip of ["10.0.0.5", "fd00::1:5"]) expect(made.checkIP(ip)).toBe(ip);
    expect(made.checkIP("10.0.0.7")).toBeUndefined();
    expect(made.subject).not.toMatch(/CN=/);
    expect(made.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
    expect(Date.parse(made.validTo) - from.getTime()).toBeGreaterThan(89 * 86_400_000);
  });

  it("names its authority as that names itself, whatever is in the name", () => {
    for (const name of ["a, b", 'a+b "c" = d', "x\ny", "", "Ünï", "#1 \\ / ;<>"]) {
      const odd = createAuthority(name, { from, days: 30 });
      const made = new X509Certificate(issueCertificate(odd, ["a"], { from, days: 9 }).cert);
      expect(made.checkIssued(new X509Certificate(odd.cert)), JSON.stringify(name)).toBe(true);
    }
  });

  it("is issued by authorities alone that can: authorityProblem() says why another one cannot", () => {
    const other = createAuthority("other", { from, days: 30 });
    const pem = (kind: { privateKey: { export(o: { type: "pkcs8"; format: "pem" }): string | Buffer } }) =>
      kind.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    expect(authorityProblem(authority)).toBeUndefined();
    expect(authorityProblem({ ...authority, cert: "x" })).toBe("ca.crt is no certificate");
    expect(authorityProblem({ ...authority, key: "x" })).toMatch(/ca\.key is no private key/);
    expect(authorityProblem({ ...authority, key: other.key })).toBe("ca.key does not belong to ca.crt");
    expect(authorityProblem({ ...authority, key: pem(generateKeyPairSync("ed25519")) })).toMatch(/does not belong/);
    expect(authorityProblem(issueCertificate(authority, ["a"], { from, days: 1 }))).toMatch(/not an authority's/);
  });

  it("is taken on both ends of mTLS; a certificate of another authority of the same name is not", async () => {
    const stranger = createAuthority("cgn CA of prod", { from, days: 10 });
    const own = issueCertificate(authority, ["127.0.0.1"], { from, days: 1 });
    const theirs = issueCertificate(stranger, ["127.0.0.1"], { from, days: 1 });
    const server = createServer({ ...own, ca: authority.cert, requestCert: true, rejectUnauthorized: true }, (socket) =>
      socket.end("in"),
    );
    server.on("tlsClientError", () => {});
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const said = (options: object): Promise<string> =>
      new Promise((resolve) => {
        let text = "";
        const socket = connect({ host: "127.0.0.1", port, ca: authority.cert, ...options });
        socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
        socket.on("error", () => resolve("refused"));
        socket.on("close", () => resolve(text));
      });
    expect(await said(own)).toBe("in");
    expect(await said(theirs)).not.toBe("in");
    expect(await said({ ...own, ca: stranger.cert })).toBe("refused");
    server.close();
  });
});
