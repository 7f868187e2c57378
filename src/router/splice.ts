import { type Member, MemberScanner } from "./member-scanner.ts";

const OPEN_BRACE = 0x7b;

/** JSON text to set a member to; undefined deletes it. */
export type MemberEdits = Readonly<Record<string, string | undefined>>;

/**
 * Change top-level members of a JSON object on its bytes: all else, spacing and number spelling included, stays as the
 * client sent it. A member that is set and not there is added at the end; one that is there twice is changed in both
 * places, since readers differ on which counts.
 *
 * `json` must be a valid JSON object (it was parsed before). The result parses equal to the same edit on the parsed
 * object.
 *
 * @param members where they were found before, for a body that is too large to be searched twice
 */
export function spliceMembers(
  json: Buffer,
  edits: MemberEdits,
  members: readonly Member[] = topLevelMembers(json),
): Buffer {
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

/** @throws NotAnObject for what is no JSON object */
function topLevelMembers(json: Buffer): readonly Member[] {
  const scanner = new MemberScanner(json);
  while (!scanner.step(json.length));
  return scanner.members;
}
