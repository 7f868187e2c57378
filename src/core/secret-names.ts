/** What stands in the place of a secret that would be printed. */
export const HIDDEN = "<secret>";

/** Say secret wherever they stand in a name, alone or at the end of a longer word (`PGPASSWORD`). */
const STRONG = /(?:password|passwd|passphrase|secrets?|credentials?|apikeys?)$/;

/** Two words that are secret together, wherever they stand. */
const PAIRS = new Set(
  ["api", "access", "private", "signing", "encryption", "account", "license"]
    .map((word) => `${word} key`)
    .concat(["api", "access", "auth", "bearer", "hf", "hub", "refresh", "session"].map((word) => `${word} token`)),
);

/** Secret as the last word only: in the middle they count or name something. */
const LAST = new Set(["token", "key", "pwd", "pass"]);

/** What stands before the last word when it is a piece of text, a lookup or a round instead: `EOS_TOKEN`, `CACHE_KEY`. */
const PLAIN_BEFORE = new Set([
  ...["eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "start", "end", "special", "image", "video", "audio"],
  ...["think", "next", "first", "last", "per", "each", "max", "min", "num", "old", "public", "cache", "primary"],
  ...["partition", "sort", "group", "routing", "hash", "single", "one", "two", "second", "multi", "forward"],
]);

/** What a secret is kept in or measured by is none: `API_KEY_FILE`, `TOKEN_LENGTH`, `ACCESS_KEY_ID`. */
const ABOUT = new Set([
  ...["file", "files", "path", "dir", "folder", "from", "id", "name", "names", "url", "uri", "host", "port", "type"],
  ...["length", "len", "size", "count", "limit", "ttl", "expiry", "timeout", "header", "enabled", "provider", "store"],
  ...["parser", "budget", "required", "min", "max"],
]);

/**
 * Does the name of a flag or a variable say that its value is a secret: `--api-key`, `HF_TOKEN`, `DB_PASSWORD`? The one place
 * that decides it. Numbers of tokens (`MAX_TOKENS`), special tokens and files that hold a secret are none.
 */
export function isSecretName(name: string): boolean {
  const words = wordsOf(name);
  const last = words.at(-1) ?? "";
  if (ABOUT.has(last)) return false;
  if (words.some((word) => STRONG.test(word))) return true;
  const singular = words.map((word, n) => (n > 0 ? word.replace(/^(key|token)s$/, "$1") : word));
  if (singular.some((word, n) => PAIRS.has(`${singular[n - 1] ?? ""} ${word}`))) return true;
  // PWD alone is the working folder, and "pass" alone a round.
  const before = words.at(-2);
  if ((last === "pwd" || last === "pass") && before === undefined) return false;
  return LAST.has(last) && (before === undefined || !PLAIN_BEFORE.has(before));
}

/** Lower-case words of `--api-key`, `HF_TOKEN_2`, `apiKey`; numbers at the end are no part of what it is. */
function wordsOf(name: string): string[] {
  const words = name
    .replaceAll(/([a-z\d])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z\d]+/);
  const plain = words.filter((word) => word !== "");
  while (plain.length > 1 && /^v?\d+$/.test(plain.at(-1) ?? "")) plain.pop();
  return plain.map((word, n) => (n === plain.length - 1 ? word.replace(/\d+$/, "") : word));
}

/** A password in an address: `redis://:pw@host`. */
const URL_PASSWORD = /[a-z][a-z0-9+.-]*:\/\/[^\s/@]*:[^\s/@]+@/i;

/** Is a variable's value not to be printed: by its name, or since an address in it has a password? */
export function isSecretVariable(name: string, value: string): boolean {
  return value !== "" && (isSecretName(name) || URL_PASSWORD.test(value));
}
