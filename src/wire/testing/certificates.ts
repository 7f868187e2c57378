import { webcrypto } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

// @peculiar/x509 finds its parts by a container that keeps notes through this old proposal, which Node does not have.
type Notes = Map<unknown, unknown>;
const notes = new WeakMap<object, Notes>();
const notesOf = (target: object): Notes => {
  const known = notes.get(target) ?? new Map();
  notes.set(target, known);
  return known;
};
Object.assign(Reflect, {
  defineMetadata: (key: unknown, value: unknown, target: object) => void notesOf(target).set(key, value),
  getOwnMetadata: (key: unknown, target: object) => notesOf(target).get(key),
  hasOwnMetadata: (key: unknown, target: object) => notesOf(target).has(key),
  getMetadata(key: unknown, target: object) {
    for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at)) {
      if (notesOf(at).has(key)) return notesOf(at).get(key);
    }
    return undefined;
  },
  metadata: (key: unknown, value: unknown) => (target: object) => void notesOf(target).set(key, value),
});
const x509 = await import("@peculiar/x509");
x509.cryptoProvider.set(webcrypto as never);

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** A certificate authority for tests, valid for a day. */
export interface TestAuthority {
  /** Its certificate, as a file. */
  readonly file: string;
  /** A certificate for this host (127.0.0.1, localhost) with its key, as files. */
  issue(name: string): Promise<{ readonly cert: string; readonly key: string }>;
}

/** Make one; files are written to `dir`. */
export async function testAuthority(dir: string, name: string): Promise<TestAuthority> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const validity = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 86_400_000) };
  const subject = `CN=${name}`;
  const extensions = [new x509.BasicConstraintsExtension(true, 1, true)];
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: subject,
    ...validity,
    keys: keys as never,
    signingAlgorithm: ALGORITHM,
    extensions,
  });
  const put = (file: string, text: string): string => {
    const path = join(dir, file);
    writeFileSync(path, text);
    return path;
  };
  let serial = 16;
  return {
    file: put(`${name}.pem`, root.toString("pem")),
    async issue(leaf) {
      const own = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
      const made = await x509.X509CertificateGenerator.create({
        serialNumber: (serial++).toString(16),
        subject: `CN=${leaf}`,
        issuer: subject,
        ...validity,
        publicKey: own.publicKey as never,
        signingKey: keys.privateKey as never,
        signingAlgorithm: ALGORITHM,
        extensions: [
          new x509.SubjectAlternativeNameExtension([
            { type: "ip", value: "127.0.0.1" },
            { type: "dns", value: "localhost" },
          ]),
        ],
      });
      const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", own.privateKey)).toString("base64");
      const lines = der.match(/.{1,64}/g)?.join("\n") ?? "";
      const pem = `-----BEGIN PRIVATE KEY-----\n${lines}\n-----END PRIVATE KEY-----\n`;
      return { cert: put(`${leaf}.crt`, made.toString("pem")), key: put(`${leaf}.key`, pem) };
    },
  };
}
