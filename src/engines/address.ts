/** Hosts that mean "every address": fit to bind, not to dial. */
const WILDCARDS = ["0.0.0.0", "::", "[::]", "*", ""];

export function isWildcardHost(host: string): boolean {
  return WILDCARDS.includes(host);
}

/** Reached from this machine only. IPv6 without brackets. */
export function isLoopbackHost(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}

const LABEL = /^[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$/;
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?=\d)|$)){4}$/;

/** A name or an address that a host can have: IPv6 without brackets and zone, no port, names of other alphabets as `xn--`. */
export function isHost(text: string): boolean {
  if (text.includes(":")) return /^[\da-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]`);
  // What ends with a number is an IPv4 address or nothing.
  if (/(?:^|\.)\d+$/.test(text)) return IPV4.test(text);
  return text.length <= 253 && text.split(".").every((label) => LABEL.test(label));
}

/** A URL of one of these schemes (`http`), of a host that can be. */
export function isUrl(text: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  const host = hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return schemes.includes(protocol.slice(0, -1)) && isHost(host);
}

/** The host to dial for something that is bound on `host` of this machine. */
export function dialHost(host: string): string {
  return isWildcardHost(host) ? "127.0.0.1" : host;
}

/** `host:port` with IPv6 in brackets. */
export function hostPort(host: string, port: number): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Base URL of an engine that listens on a slot. */
export function slotUrl(slot: { readonly host: string; readonly port: number }): string {
  return `http://${hostPort(dialHost(slot.host), slot.port)}`;
}

/** A ZMQ TCP endpoint taken apart; undefined for `ipc://`, `inproc://` and what is none. */
export function parseTcpEndpoint(endpoint: string): { readonly host: string; readonly port: number } | undefined {
  const found = /^tcp:\/\/(.*):(\d{1,5})$/.exec(endpoint);
  if (found === null) return undefined;
  const port = Number(found[2]);
  return port > 65_535 ? undefined : { host: found[1] ?? "", port };
}

/**
 * Where to dial what an engine bound: wildcards become `host`, anything that is no TCP endpoint stays as it is.
 *
 * @param rank - added to the port: vLLM and SGLang give each data-parallel rank the next one
 */
export function dialEndpoint(endpoint: string, host: string, rank = 0): string {
  const bound = parseTcpEndpoint(endpoint);
  if (bound === undefined) return endpoint;
  return `tcp://${hostPort(isWildcardHost(bound.host) ? dialHost(host) : bound.host, bound.port + rank)}`;
}
