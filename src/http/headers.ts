/** Headers of one hop only (RFC 9110 section 7.6.1, and the ones proxies must set anew). Lower case. */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Set anew for the upstream by whoever sends: address, length, and what would make the answer unreadable on its way. */
const NOT_FORWARDED = new Set(["host", "content-length", "expect", "accept-encoding"]);

export type HeaderPairs = readonly string[];

/** Names that a `Connection` header lists: they too are for one hop only. */
function listedIn(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined || /^\s*(keep-alive|close)?\s*$/i.test(connection)) return undefined;
  return new Set(
    connection
      .toLowerCase()
      .split(",")
      .map((name) => name.trim()),
  );
}

/**
 * A request's headers as they go on, in their order and spelling.
 *
 * @param raw `IncomingMessage.rawHeaders`: name, value, name, value, …
 * @param drop more names to leave out, lower case
 * @returns pairs in the same layout, which undici takes as they are
 */
export function forwardRequestHeaders(raw: HeaderPairs, drop: (name: string) => boolean): string[] {
  const out: string[] = [];
  let listed: ReadonlySet<string> | undefined;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length === 10 && raw[i]!.toLowerCase() === "connection") listed = listedIn(raw[i + 1]) ?? listed;
  }
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (HOP_BY_HOP.has(name) || NOT_FORWARDED.has(name) || listed?.has(name) || drop(name)) continue;
    out.push(raw[i]!, raw[i + 1]!);
  }
  return out;
}

export type ResponseHeaders = Record<string, string | string[]>;

/**
 * What tells of the engine itself, not of its answer. `vary`: the router asks without what engines vary their answers by (an origin, an
 * encoding), and says itself what its own depend on.
 */
const NOT_RETURNED = new Set(["server", "x-powered-by", "alt-svc", "vary"]);

/**
 * A redirect's or a created thing's address as clients may see it: of the same engine only, as a path of ours.
 * @param from the URL that the engine was asked by
 * @returns undefined for an address elsewhere
 */
export function localLocation(location: string, from: string): string | undefined {
  if (!URL.canParse(location, from)) return undefined;
  const { origin, pathname, search, hash } = new URL(location, from);
  if (origin !== new URL(from).origin) return undefined;
  // Two slashes would begin the name of a host.
  return pathname.replace(/^\/+/, "/") + search + hash;
}

/**
 * A response's headers as they go on to the client. `content-length` stays: the body does too.
 * @param own headers of ours, which win
 */
export function forwardResponseHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  own: Readonly<Record<string, string>> = {},
): ResponseHeaders {
  const out: ResponseHeaders = {};
  const connection = headers["connection"];
  const listed = listedIn(typeof connection === "string" ? connection : undefined);
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined || HOP_BY_HOP.has(name) || NOT_RETURNED.has(name) || listed?.has(name)) continue;
    // Which pages may read answers is the router's to say: vLLM allows all by default.
    if (name.startsWith("access-control-")) continue;
    out[name] = value;
  }
  for (const name in own) out[name] = own[name]!;
  return out;
}
