import type { HostPort } from "../config/settings.ts";
import type { WorkerId } from "../core/ids.ts";
import type { EngineRelay } from "../core/worker.ts";
import { isLoopbackHost } from "../engines/address.ts";

const PREFIX = "/cgn/relay/";

/** `[agent].relay`: engines on loopback only, all, or none. */
export type RelayMode = "auto" | "always" | "never";

/**
 * How an engine is announced to be reached through its agent; undefined: it is not.
 * @param isGuarded nobody reaches the agent's port who has not proved himself
 */
export function relayOf(id: WorkerId, url: string, mode: RelayMode, isGuarded: boolean): EngineRelay | undefined {
  if (mode === "never" || !isGuarded) return undefined;
  const always = mode === "always";
  if (!always && !isLoopbackHost(hostOf(url))) return undefined;
  return { path: `${PREFIX}${encodeURIComponent(id)}`, always };
}

/** Without brackets; "" for what is no URL. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "") : "";
}

/** Is the agent's port one that only this host reaches, or that asks everybody for a certificate? */
export function isGuardedPort({ host }: HostPort, asksCertificates: boolean): boolean {
  return asksCertificates || isLoopbackHost(host);
}

/** The engine that a path means, and what is asked of it; undefined: it is no path of the relay. */
export function readRelayPath(url: string): { readonly id: string; readonly rest: string } | undefined {
  if (!url.startsWith(PREFIX)) return undefined;
  const [, id = "", rest = ""] = /^([^/?]+)(.*)$/s.exec(url.slice(PREFIX.length)) ?? [];
  try {
    return { id: decodeURIComponent(id), rest: rest.startsWith("/") ? rest : `/${rest}` };
  } catch {
    return { id: "", rest: "/" };
  }
}
