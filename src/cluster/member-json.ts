import { nodeId } from "../core/ids.ts";
import type { Member, MemberKind, NodeMark } from "../core/membership.ts";

export const MEMBER_KINDS: readonly MemberKind[] = ["agent", "kvcached", "router"];
export const NODE_MARKS: readonly NodeMark[] = ["cordoned", "draining"];

/** A member as it was written by another process, perhaps of another version; undefined: it is none. Unknown fields are left out. */
export function memberFromJson(text: string): Member | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { kind, id, node, url, epoch, labels } = value as Record<string, unknown>;
  if (!MEMBER_KINDS.includes(kind as MemberKind)) return undefined;
  if (typeof id !== "string" || typeof node !== "string" || typeof url !== "string") return undefined;
  // Whoever follows it would fail on another one.
  if (!isMemberUrl(url)) return undefined;
  return {
    kind: kind as MemberKind,
    id,
    node: nodeId(node),
    url,
    epoch: typeof epoch === "number" ? epoch : 0,
    ...(isLabels(labels) ? { labels } : {}),
  };
}

/** `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`. */
export function isMemberUrl(url: string): boolean {
  if (url.startsWith("unix:")) return url.length > "unix:".length;
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

function isLabels(value: unknown): value is Readonly<Record<string, string>> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((each) => typeof each === "string")
  );
}
