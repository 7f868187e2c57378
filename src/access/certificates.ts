import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import { isIP } from "node:net";
import { bits, boolean, childrenOf, der, integer, octets, oid, sequence, setOf, time, utf8 } from "./der.ts";

/** A certificate and its key, as PEM. The key is a secret. */
export interface Issued {
  readonly cert: string;
  readonly key: string;
}

export interface Validity {
  readonly from: Date;
  readonly days: number;
}

const ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"));
const DAY_MS = 86_400_000;
/** Clocks of hosts differ. */
const EARLIER_MS = 3_600_000;

/** Make a certificate authority of one's own: it signs certificates of hosts, and no other authorities (ECDSA P-256, RFC 5280). */
export function createAuthority(name: string, validity: Validity): Issued {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const subject = nameOf(["2.5.4.10", "cgn"], ["2.5.4.3", name]);
  const ownId = keyId(publicKey);
  const extensions = [
    extension("2.5.29.19", sequence(boolean(true), integer(Buffer.from([0]))), true),
    // keyCertSign, cRLSign
    extension("2.5.29.15", bits(Buffer.from([0b0000_0110]), 1), true),
    extension("2.5.29.14", octets(ownId)),
  ];
  const cert = signed({ issuer: subject, subject, publicKey, signer: privateKey, validity, extensions });
  return { cert, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
}

/** Why no certificates can be issued by this authority; undefined: they can. */
export function authorityProblem({ cert, key }: Issued): string | undefined {
  const parent = parsed(() => new X509Certificate(cert));
  if (parent === undefined) return "ca.crt is no certificate";
  const signer = parsed(() => createPrivateKey(key));
  if (signer === undefined) return "ca.key is no private key, or has a password";
  if (!parent.ca) return "ca.crt is not an authority's certificate";
  if (!parent.checkPrivateKey(signer)) return "ca.key does not belong to ca.crt";
  const kind = signer.asymmetricKeyType ?? "";
  return kind === "ec" ? undefined : `ca.key is of kind ${kind}, and only elliptic curves (ECDSA) are signed with`;
}

function parsed<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}

/**
 * Make a certificate for a host, to serve with and to show to others. It has no common name: names are in `subjectAltName`, and etcd's
 * gateway refuses common names where it has users.
 * @param hosts names and addresses by which others reach it; one at least
 */
export function issueCertificate(authority: Issued, hosts: readonly string[], validity: Validity): Issued {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const signer = createPrivateKey(authority.key);
  const parent = new X509Certificate(authority.cert);
  const extensions = [
    extension("2.5.29.19", sequence(), true),
    // digitalSignature
    extension("2.5.29.15", bits(Buffer.from([0b1000_0000]), 7), true),
    // serverAuth, clientAuth
    extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"), oid("1.3.6.1.5.5.7.3.2"))),
    extension("2.5.29.17", sequence(...hosts.map(alternativeName))),
    extension("2.5.29.14", octets(keyId(publicKey))),
    extension("2.5.29.35", sequence(der(0x80, keyId(parent.publicKey)))),
  ];
  const subject = nameOf(["2.5.4.10", "cgn"], ["2.5.4.11", hosts[0] ?? ""]);
  const cert = signed({ issuer: subjectOf(parent), subject, publicKey, signer, validity, extensions });
  return { cert, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
}

interface ToSign {
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly publicKey: KeyObject;
  readonly signer: KeyObject;
  readonly validity: Validity;
  readonly extensions: readonly Buffer[];
}

function signed({ issuer, subject, publicKey, signer, validity, extensions }: ToSign): string {
  const start = validity.from.getTime();
  const serial = randomBytes(16);
  const body = sequence(
    der(0xa0, integer(Buffer.from([2]))),
    integer(serial),
    ECDSA_SHA256,
    issuer,
    sequence(time(new Date(start - EARLIER_MS)), time(new Date(start + validity.days * DAY_MS))),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const whole = sequence(body, ECDSA_SHA256, bits(sign("sha256", body, signer)));
  const lines = whole.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octets(value));
}

function nameOf(...parts: readonly (readonly [string, string])[]): Buffer {
  return sequence(...parts.map(([id, text]) => setOf(sequence(oid(id), utf8(text)))));
}

/** SHA-1 of the key's bits, as RFC 5280 names keys. */
function keyId(publicKey: KeyObject): Buffer {
  const { x = "", y = "" } = publicKey.export({ format: "jwk" });
  const point = [Buffer.from([4]), Buffer.from(x, "base64url"), Buffer.from(y, "base64url")];
  return createHash("sha1").update(Buffer.concat(point)).digest();
}

function alternativeName(host: string): Buffer {
  const version = isIP(host);
  if (version === 0) return der(0x82, Buffer.from(host));
  return der(0x87, Buffer.from(version === 4 ? host.split(".").map(Number) : ipv6Bytes(host)));
}

function ipv6Bytes(host: string): number[] {
  // URL writes the address in its one short form, with a dotted end in hexadecimal.
  const [head = "", tail] = new URL(`http://[${host}]`).hostname.slice(1, -1).split("::");
  const groups = (text: string): number[] =>
    text
      .split(":")
      .filter(Boolean)
      .map((group) => Number.parseInt(group, 16));
  const [before, after] = [groups(head), groups(tail ?? "")];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => 0);
  return [...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 255]);
}

/** The name of an authority byte for byte: as text it would lose how its parts are written. */
function subjectOf({ raw }: X509Certificate): Buffer {
  const [body] = childrenOf(raw);
  // Behind the version: serial, algorithm, issuer, validity.
  const subject = childrenOf(body!)[5];
  return subject!;
}
