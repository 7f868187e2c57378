const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** JSON text to set a member to; undefined deletes it. */
export type MemberEdits = Readonly<Record<string, string | undefined>>;

interface Member {
  readonly key: string;
  /** First byte of the key's quote. */
  readonly start: number;
  readonly valueStart: number;
  /** One past the value. */
  readonly end: number;
}

/**
 * Change top-level members of a JSON object on its bytes: all else, spacing and number spelling included, stays as the
 * client sent it. A member that is set and not there is added at the end; one that is there twice is changed in both
 * places, since readers differ on which counts.
 *
 * `json` must be a valid JSON object (it was parsed before). The result parses equal to the same edit on the parsed
 * object.
 */
export function spliceMembers(json: Buffer, edits: MemberEdits): Buffer {
  const members = topLevelMembers(json);
  const parts: Buffer[] = [];
  const missing = new Set(Object.keys(edits).filter((key) => edits[key] !== undefined));
  let copied = 0;
  let kept = 0;
  for (let i = 0; i < members.length; i++) {
    const m = members[i]!;
    if (!Object.hasOwn(edits, m.key)) {
      kept++;
      continue;
    }
    const text = edits[m.key];
    if (text === undefined) {
      // With the comma before it, or after it when nothing is kept before.
      const next = members[i + 1];
      const from = kept > 0 ? members[i - 1]!.end : m.start;
      parts.push(json.subarray(copied, Math.max(copied, from)));
      copied = kept > 0 || next === undefined ? m.end : next.start;
    } else {
      kept++;
      missing.delete(m.key);
      parts.push(json.subarray(copied, m.valueStart), Buffer.from(text));
      copied = m.end;
    }
  }
  if (missing.size > 0) {
    const added = [...missing].map((key) => `${JSON.stringify(key)}:${edits[key]}`).join(",");
    const end = members.length > 0 ? members[members.length - 1]!.end : json.indexOf(OPEN_BRACE) + 1;
    parts.push(json.subarray(copied, Math.max(copied, end)), Buffer.from(kept > 0 ? `,${added}` : added));
    copied = Math.max(copied, end);
  }
  parts.push(json.subarray(copied));
  return Buffer.concat(parts);
}

function topLevelMembers(b: Buffer): Member[] {
  const members: Member[] = [];
  let at = b.indexOf(OPEN_BRACE) + 1;
  for (;;) {
    at = skipBlank(b, at);
    if (b[at] !== QUOTE) return members;
    const start = at;
    at = endOfString(b, at);
    const key = JSON.parse(b.toString("utf8", start, at)) as string;
    at = skipBlank(b, at);
    if (b[at] !== COLON) throw new RangeError("spliceMembers() needs valid JSON");
    const valueStart = skipBlank(b, at + 1);
    at = endOfValue(b, valueStart);
    members.push({ key, start, valueStart, end: at });
    at = skipBlank(b, at);
    if (b[at] === COMMA) at++;
  }
}

function skipBlank(b: Buffer, at: number): number {
  while (b[at] === 0x20 || b[at] === 0x0a || b[at] === 0x0d || b[at] === 0x09) at++;
  return at;
}

/** One past the closing quote. Long strings are skipped by `indexOf`, not byte by byte. */
function endOfString(b: Buffer, at: number): number {
  for (let end = b.indexOf(QUOTE, at + 1); end >= 0; end = b.indexOf(QUOTE, end + 1)) {
    let slashes = 0;
    while (b[end - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  throw new RangeError("spliceMembers() needs valid JSON");
}

/** One past a value: string, number, literal, or balanced brackets. */
function endOfValue(b: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < b.length; at++) {
    const c = b[at];
    if (c === QUOTE) {
      at = endOfString(b, at) - 1;
      if (depth === 0) return at + 1;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      depth++;
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      if (depth === 0) return trimEnd(b, at);
      if (--depth === 0) return at + 1;
    } else if (c === COMMA && depth === 0) {
      return trimEnd(b, at);
    }
  }
  throw new RangeError("spliceMembers() needs valid JSON");
}

/** Blanks after a number or literal belong to what follows. */
function trimEnd(b: Buffer, at: number): number {
  while (b[at - 1] === 0x20 || b[at - 1] === 0x0a || b[at - 1] === 0x0d || b[at - 1] === 0x09) at--;
  return at;
}
