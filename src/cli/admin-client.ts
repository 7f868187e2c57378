import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { loadConfig } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import { SILENT_LOG } from "../core/log.ts";
import { isUrl } from "../engines/address.ts";
import { fetchText, type TextReply } from "../http/fetch-text.ts";
import { guardOutgoing } from "../wire/outgoing.ts";
import { openTls } from "../wire/tls.ts";
import type { CliContext, Option, Values } from "./command.ts";
import { loadOptions } from "./load-config.ts";

export const DEFAULT_ADMIN = "http://127.0.0.1:9091";

/** Options of commands that ask a running router's admin port. */
export const ADMIN_OPTIONS = {
  admin: { type: "string", value: "URL", about: "the router's admin port", default: DEFAULT_ADMIN },
  "key-file": {
    type: "string",
    value: "FILE",
    about: "file with a key of scope metrics or admin, for an admin port off loopback (else $CGN_ADMIN_KEY)",
  },
  config: {
    type: "string",
    value: "FILE",
    about: "configuration whose [security] proves an https: admin port (else $CGN_CONFIG, ./cgn.toml, …)",
  },
} as const satisfies Record<string, Option>;

type AdminContext = Pick<CliContext, "env" | "cwd"> & { readonly clock?: Clock };

/** The admin port's address without a slash at its end. @throws CgnError BAD_INVOCATION */
export function adminBase(options: Values): string {
  return baseUrl(String(options["admin"] ?? DEFAULT_ADMIN), "--admin");
}

/**
 * A base URL that a flag names, where the scheme may be left out; without a slash at its end.
 * @throws CgnError BAD_INVOCATION
 */
export function baseUrl(text: string, flag: string): string {
  const url = (/^[a-z]+:\/\//i.test(text) ? text : `http://${text}`).replace(/\/+$/, "");
  if (isUrl(url, ["http", "https"])) return url;
  throw new CgnError("BAD_INVOCATION", `Cannot ask at ${flag} "${text}": it is no URL. Write http://HOST:PORT`, {
    text,
  });
}

/**
 * GET a text of a running router's admin port.
 * @throws CgnError DEPENDENCY_UNREACHABLE; BAD_INVOCATION or NOT_SUPPORTED with the router's words for what it refuses
 */
export function askAdmin(path: string, options: Values, cli: AdminContext): Promise<string> {
  return exchange("GET", path, options, cli);
}

/** The same with POST: what changes something. @throws CgnError as `askAdmin()` does */
export function postAdmin(path: string, options: Values, cli: AdminContext): Promise<string> {
  return exchange("POST", path, options, cli);
}

async function exchange(method: "GET" | "POST", path: string, options: Values, cli: AdminContext): Promise<string> {
  const base = adminBase(options);
  const key = adminKey(options, cli);
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const leave = base.startsWith("https:") ? guardByConfiguration(options, cli) : () => {};
  const reply = await fetchText(`${base}${path}`, { timeoutMs: 10_000, headers, method });
  leave();
  const { status, body } = reply;
  if (status === 200) return body;
  const words = wordsOf(body);
  if (status >= 400 && status < 500) {
    throw new CgnError("BAD_INVOCATION", `Cannot ask the router at ${base}: ${words ?? status}`, { status });
  }
  if (status === 501 && words !== undefined) {
    throw new CgnError("NOT_SUPPORTED", `The router at ${base} says: ${words}`, { status });
  }
  if (words !== undefined) {
    throw new CgnError("DEPENDENCY_UNREACHABLE", `The router at ${base} answers ${status}: ${words}`, { base });
  }
  const is = status === 0 ? whySilent(reply) : `it answers ${status}`;
  const message = `Cannot ask the router at ${base}: ${is}. Name its admin port with --admin`;
  throw new CgnError("DEPENDENCY_UNREACHABLE", message, { base });
}

const REAL_CLOCK = { now: () => performance.now(), wall: () => Date.now(), after: () => () => {} };

/** Prove the other side, and show who asks, by `[security]`. @throws CgnError TLS_INVALID, and as loading does for a file that is not there */
export function guardByConfiguration(options: Values, cli: AdminContext): () => void {
  const { security } = loadConfig(loadOptions(options, cli)).settings;
  // One question, one reading.
  return guardOutgoing(
    openTls(security, { clock: { ...(cli.clock ?? REAL_CLOCK), after: () => () => {} }, log: SILENT_LOG }),
  );
}

/** The key of `--key-file`, else of `$CGN_ADMIN_KEY`. @throws CgnError BAD_INVOCATION */
export function adminKey(options: Values, { env, cwd }: AdminContext): string | undefined {
  const file = options["keyFile"];
  if (typeof file !== "string") return env["CGN_ADMIN_KEY"];
  try {
    return readFileSync(resolve(cwd, file), "utf8").trim();
  } catch (e) {
    const said = e instanceof Error ? e.message : String(e);
    throw new CgnError("BAD_INVOCATION", `Cannot read the key in "${file}": ${said}. Name a file with one key`, {
      file,
    });
  }
}

/** Why there was no answer. A port at which something hangs is another trouble than one where nothing listens. */
export function whySilent({ refused, tls }: TextReply): string {
  return tls ?? (refused ? "nothing listens there" : "no answer came");
}

/** The message of an error as cgn's daemons write it. */
export function wordsOf(body: string): string | undefined {
  try {
    const { error } = JSON.parse(body) as { readonly error?: { readonly message?: string } };
    return error?.message;
  } catch {
    return undefined;
  }
}
