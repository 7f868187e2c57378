import { z } from "zod";
import { formatDurationMs, parseDurationMs } from "../core/units.ts";
import { isHost, isUrl } from "../engines/address.ts";
import type { HostPort } from "./settings.ts";

/**
 * What a key says of itself besides its type, by zod's `.meta()`. The reference, the JSON schema, environment names,
 * `config explain` and messages are made from it.
 */
export interface KeyMeta {
  /** What it means: `.describe()` sets the same field. */
  readonly description?: string;
  readonly unit?: string;
  /** Other names that are read as this one. */
  readonly aliases?: readonly string[];
  /** A duration text: `KEY_ms` is read too, as an integer. */
  readonly duration?: boolean;
  /** Never printed; `KEY_file` is read too, as the path of a file that holds it. */
  readonly secret?: boolean;
  /** The default in words, where it is not a constant. */
  readonly defaultText?: string;
  /** cgn reads the key and does nothing with it; loading says so when it asks for something. */
  readonly unsupported?: boolean;
}

/** zod with our meta fields typed. */
export function about<T extends z.ZodType>(schema: T, meaning: string, meta: KeyMeta = {}): T {
  return schema.meta({ description: meaning, ...meta } as Record<string, unknown>) as T;
}

const DURATION = /^(\d+(\.\d+)?(ms|s|m|h|d))+$/;

/** A duration text such as `"5s"`; gives milliseconds. */
function durationText() {
  return z
    .string()
    .regex(DURATION, {
      error: 'is no duration. Write a number and a unit (ms, s, m, h, d), for example "5s" or "1m30s"',
    })
    .transform((text) => parseDurationMs(text) ?? 0);
}

/** A duration with a default; gives milliseconds. */
export function duration(meaning: string, defaultMs: number, meta: KeyMeta = {}) {
  return about(durationText().prefault(formatDurationMs(defaultMs)), meaning, {
    unit: "duration",
    duration: true,
    ...meta,
  });
}

/** A duration that binds only when it is written; gives milliseconds. */
export function optionalDuration(meaning: string, meta: KeyMeta = {}) {
  return about(durationText().optional(), meaning, { unit: "duration", duration: true, ...meta });
}

/**
 * Read `HOST:PORT`, `[IPv6]:PORT` or `:PORT` (every address).
 * @returns undefined when the text is none
 */
export function parseHostPort(text: string): HostPort | undefined {
  const found = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/[\]]*)):(\d{1,5})$/.exec(text);
  if (found === null) return undefined;
  const port = Number(found[3]);
  const host = found[1] ?? found[2] ?? "";
  return port > 65_535 ? undefined : { host: host === "" ? "0.0.0.0" : host, port };
}

function hostPortText() {
  return z
    .string()
    .refine((text) => parseHostPort(text) !== undefined, {
      error: 'is no address to listen on. Write "HOST:PORT" with a port up to 65535, for example "127.0.0.1:8080"',
    })
    .transform((text) => parseHostPort(text) as HostPort);
}

/** An address to listen on. */
export function listen(meaning: string, fallback: string, meta: KeyMeta = {}) {
  return about(hostPortText().prefault(fallback), meaning, { unit: "host:port", ...meta });
}

export function optionalListen(meaning: string, meta: KeyMeta = {}) {
  return about(hostPortText().optional(), meaning, { unit: "host:port", ...meta });
}

/** A TCP port that something listens on. */
export function port() {
  return z.int().min(1).max(65_535);
}

/** A list of texts; one text with commas is read as a list too. */
export function textList() {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((value) => (typeof value === "string" ? splitCommas(value) : value));
}

/** Split at commas, trim, drop empty parts. */
export function splitCommas(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** A boolean with a default. */
export function flag(meaning: string, fallback: boolean, meta: KeyMeta = {}) {
  return about(z.boolean().default(fallback), meaning, meta);
}

/** A host's name or address, for others to dial. */
export function optionalHost(meaning: string, meta: KeyMeta = {}) {
  const bare = (text: string): string => text.replace(/^\[(.*:.*)\]$/, "$1");
  const host = z
    .string()
    .min(1)
    .refine((text) => text === "" || isHost(bare(text)), {
      error:
        'is no name or address of a host. Write it without a scheme and a port, for example "10.0.0.5" or "gpu1.lan"',
    })
    .transform(bare);
  return about(host.optional(), meaning, meta);
}

/** A URL that may be left out. Of a secret one nothing is shown. */
export function optionalUrl(meaning: string, schemes: readonly string[], meta: KeyMeta = {}) {
  const said = meta.secret ? `it is no URL with ${schemes.join(":// or ")}://` : "is no URL";
  const url = z
    .string()
    .min(1)
    .refine((text) => text === "" || isUrl(text, schemes), { error: `${said}. Write ${schemes[0]}://HOST:PORT` });
  return about(url.optional(), meaning, { unit: "URL", ...meta });
}

/** A text that may be left out. */
export function optionalText(meaning: string, meta: KeyMeta = {}) {
  return about(z.string().min(1).optional(), meaning, meta);
}
