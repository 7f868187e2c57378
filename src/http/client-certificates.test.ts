import { describe, expect, it } from "vitest";
import { hasCertificate, optionalCertificates, requireCertificate } from "./client-certificates.ts";
import type { HttpTls } from "./server.ts";

const refused: string[] = [];
const tls = (required: boolean): HttpTls => ({
  serverOptions: () => ({ cert: "c", key: "k", requestCert: true, required }),
  onChange: () => () => {},
  refused: (why) => void refused.push(why),
});
const from = (authorized: boolean) => ({ socket: { authorized, remoteAddress: "10.0.0.9" } }) as never;

describe("optionalCertificates()", () => {
  it("optionalCertificates() asks for certificates and requires none", () => {
    expect(optionalCertificates(tls(true))?.serverOptions()).toMatchObject({ requestCert: true, required: false });
    expect(optionalCertificates(undefined)).toBeUndefined();
    expect(optionalCertificates({ ...tls(true), serverOptions: () => undefined })?.serverOptions()).toBeUndefined();
  });
});

describe("requireCertificate()", () => {
  it("requireCertificate() refuses who shows none where one is required, and counts him", () => {
    expect(() => requireCertificate(from(false), tls(true), "/metrics")).toThrow(
      /Cannot serve \/metrics: no certificate/,
    );
    expect(refused).toEqual(["no certificate was shown"]);
    for (const [socket, own] of [
      [from(true), tls(true)],
      [from(false), tls(false)],
      [from(false), undefined],
    ] as const) {
      requireCertificate(socket, own, "/metrics");
      expect(hasCertificate(socket, own)).toBe(true);
    }
    expect(hasCertificate(from(false), tls(true))).toBe(false);
  });
});
