import { hash, randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

/** Longest key that is looked at; the rest of a header's 64 KiB is nobody's key. */
export const MAX_KEY_LENGTH = 512;

const MADE_KEY = /^cgn-[0-9a-f]{32}$/;

/** A new key: `cgn-` and 128 random bits in hex. */
export function newApiKey(): string {
  return `cgn-${randomBytes(16).toString("hex")}`;
}

/** Was this key made by `newApiKey()` (or looks as if)? Then nobody can have chosen it. */
export function isMadeKey(key: string): boolean {
  return MADE_KEY.test(key);
}

/** SHA-256 in hex. Enough for keys of 128 random bits: nobody tries them out. */
export function hashApiKey(key: string): string {
  return hash("sha256", key, "hex");
}

/** Hash of a key that a person chose, as a file has it: `scrypt:LOG2N:R:P:SALT:HASH`, the last two in base64url. */
export interface ChosenHash {
  readonly logN: number;
  readonly r: number;
  readonly p: number;
  readonly salt: Buffer;
  readonly derived: Buffer;
}

const derive = promisify(scrypt) as (
  key: string,
  salt: Buffer,
  length: number,
  options: { N: number; r: number; p: number; maxmem: number },
) => Promise<Buffer>;

/** 32 MiB and about 60 ms. */
const COST = { logN: 15, r: 8, p: 1 } as const;

async function derived(key: string, { logN, r, p, salt }: Omit<ChosenHash, "derived">): Promise<Buffer> {
  return derive(key.normalize("NFC"), salt, 32, { N: 2 ** logN, r, p, maxmem: 256 * 2 ** logN * r });
}

/** The text for a file, of a key that a person chose. */
export async function hashChosenKey(key: string, salt: Buffer = randomBytes(16)): Promise<string> {
  const bytes = await derived(key, { ...COST, salt });
  return `scrypt:${COST.logN}:${COST.r}:${COST.p}:${salt.toString("base64url")}:${bytes.toString("base64url")}`;
}

/** @returns undefined for a text that is no such hash, or one whose cost could stop the router */
export function parseChosenHash(text: string): ChosenHash | undefined {
  const found = /^scrypt:(1[4-7]):([1-8]):([12]):([\w-]{16,64}):([\w-]{43})$/.exec(text);
  if (found === null) return undefined;
  const [, logN = "", r = "", p = "", salt = "", bytes = ""] = found;
  return {
    logN: Number(logN),
    r: Number(r),
    p: Number(p),
    salt: Buffer.from(salt, "base64url"),
    derived: Buffer.from(bytes, "base64url"),
  };
}

/** Is this the key behind the hash? Compared in constant time. */
export async function matchesChosen(key: string, hashed: ChosenHash): Promise<boolean> {
  return timingSafeEqual(await derived(key, hashed), hashed.derived);
}
