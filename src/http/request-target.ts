/** Where a request goes, in one spelling. */
export interface RequestTarget {
  /** Decoded: what an engine's own routing compares with. Without the query. */
  readonly path: string;
  /** Path and query as they are sent on; its path decodes to `path`. */
  readonly target: string;
}

/** Spelled as it is already: nothing encoded, no empty or dotted part. */
const PLAIN = /^(?:\/[\w~-][\w.~-]*)+$/;

/**
 * Read a request's target. Servers decode `%63`, some merge `//`, some resolve `..`, and absolute URLs are allowed (RFC 9112
 * section 3.2.2): whoever looks at a path and hands on another spelling may be thinking of another path than its reader.
 * So there is one spelling, for both.
 * @returns undefined for one that cannot be decoded
 */
export function readTarget(raw: string): RequestTarget | undefined {
  const cut = raw.search(/[?#]/);
  const written = cut < 0 ? raw : raw.slice(0, cut);
  const query = cut < 0 ? "" : raw.slice(cut).replace(/#.*$/s, "");
  if (PLAIN.test(written)) return { path: written, target: written + query };
  const local = written.replace(/^https?:\/\/[^/]*/i, "");
  if (!local.startsWith("/")) return local === "" ? { path: "/", target: `/${query}` } : undefined;
  let decoded: string;
  try {
    decoded = decodeURIComponent(local);
  } catch {
    return undefined;
  }
  const parts = resolveDots(decoded.split("/"));
  return { path: `/${parts.join("/")}`, target: `/${parts.map(encodePart).join("/")}${query}` };
}

/** Without empty parts (but for a slash at the end), `.` and `..`. */
function resolveDots(parts: readonly string[]): string[] {
  const out: string[] = [];
  for (const part of parts) {
    if (part === "..") out.pop();
    else if (part !== "" && part !== ".") out.push(part);
  }
  if (parts.at(-1) === "" && out.length > 0) out.push("");
  return out;
}

/** Everything that RFC 3986 allows in a part of a path stays itself. */
function encodePart(part: string): string {
  return encodeURIComponent(part).replace(/%(?:3A|40|24|26|2B|2C|3B|3D)/g, decodeURIComponent);
}
