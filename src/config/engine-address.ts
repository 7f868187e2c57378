import { isLoopbackHost, isWildcardHost } from "../engines/address.ts";
import { userValue } from "../engines/args.ts";
import type { EngineDraft } from "./engine-drafts.ts";
import type { KeyPath } from "./key-path.ts";
import { isWritten, type LoadContext, placeText, report } from "./load-context.ts";
import { at } from "./problems.ts";

/** Where an engine listens, or is found. */
export interface EngineAddress {
  /** Base URL for clients on this host, without a path. */
  readonly url: string;
  /** What the engine binds to. */
  readonly host: string;
  readonly port: number;
}

/** A port that something in the configuration states, and where. */
interface Stated {
  readonly port: number;
  readonly path: KeyPath;
  /** How a message tells it. */
  readonly what: string;
}

/**
 * Give every engine its address. Stated ports are kept; an engine without one gets its kind's usual port, or the next
 * that no other engine and no listener of the file has.
 *
 * @param listeners ports that cgn's own daemons listen on, with the key that says so
 * @param template words of `[agent].vllm_cmd`, which may state a port too
 */
export function placeEngines(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  listeners: ReadonlyMap<number, KeyPath>,
  template: readonly string[] = [],
): EngineAddress[] {
  const urls = drafts.map((draft) => readUrl(ctx, draft));
  const stated = drafts.map((draft, n) => statedPort(ctx, draft, urls[n], template));
  const taken = new Set([...listeners.keys(), ...stated.flatMap((each) => (each === undefined ? [] : [each.port]))]);
  const ports = drafts.map((draft, n) => {
    const known = stated[n]?.port;
    if (known !== undefined) return known;
    const base = baseStated(ctx, draft, urls[n], template) ?? draft.engine.defaultPort(draft.options);
    let port = base;
    while (taken.has(port)) port += 1;
    taken.add(port);
    return port;
  });
  const addresses = drafts.map((draft, n) => address(ctx, draft, urls[n], ports[n]!));
  reportClashes(ctx, drafts, addresses, listeners);
  return addresses;
}

/** Parse `url`; what is wrong with it is noted and counts as not written. */
function readUrl(ctx: LoadContext, draft: EngineDraft): URL | undefined {
  const written = draft.common.url;
  if (written === undefined) {
    if (!draft.engine.spawns) {
      report(ctx, [...draft.entry.path, "url"], {
        problem: `is missing: engine kind "${draft.engine.kind}" is found by its URL`,
        remedy: 'Write its base URL, for example "http://10.0.0.5:8000"',
      });
    }
    return undefined;
  }
  const url = URL.canParse(written) ? new URL(written) : undefined;
  const finding = urlProblem(written, url, draft.spawn);
  if (finding !== undefined) {
    report(ctx, [...draft.entry.path, "url"], finding);
    return undefined;
  }
  return url;
}

function urlProblem(
  written: string,
  url: URL | undefined,
  spawn: boolean,
): { problem: string; remedy: string } | undefined {
  const shown = JSON.stringify(written.replace(/\/\/[^@/]*@/, "//***@"));
  const remedy = 'Write the base URL, for example "http://127.0.0.1:8000"';
  if (url === undefined || url.hostname === "") return { problem: `${shown} is no URL`, remedy };
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return { problem: `${shown} is not http or https`, remedy };
  if (spawn && url.protocol === "https:") {
    return {
      problem: `${shown} is https, and an engine that cgn starts speaks http`,
      remedy: `Write "http://${url.host}", or spawn = false for one that somebody else runs behind TLS`,
    };
  }
  if (url.username !== "" || url.password !== "") {
    return {
      problem: `${shown} holds a name or password, which would be printed`,
      remedy: "Remove what stands before @",
    };
  }
  const path = url.pathname.replace(/\/+$/, "");
  if ((path !== "" && path !== "/v1") || url.search !== "" || url.hash !== "") {
    return { problem: `${shown} has more than a host and a port`, remedy: `Write the base URL: "${url.origin}"` };
  }
  return undefined;
}

/** Every place that states the port of this engine; they must agree. Only the first of the engines that share an entry has one. */
function statedPort(
  ctx: LoadContext,
  draft: EngineDraft,
  url: URL | undefined,
  template: readonly string[],
): Stated | undefined {
  const all = statedPorts(ctx, draft, url, template);
  const first = all[0];
  for (const other of all.slice(1)) {
    if (first === undefined || other.port === first.port) continue;
    report(ctx, other.path, {
      problem: `${other.what} ${other.port} contradicts ${first.what} ${first.port} of ${placeText(ctx, first.path)}`,
      remedy: "Write one port, in engine.url or in the section, and remove the other",
    });
  }
  return draft.nth === 0 ? first : undefined;
}

function baseStated(
  ctx: LoadContext,
  draft: EngineDraft,
  url: URL | undefined,
  template: readonly string[],
): number | undefined {
  const first = draft.nth === 0 ? undefined : statedPorts(ctx, draft, url, template)[0];
  return first === undefined ? undefined : first.port + draft.nth;
}

function statedPorts(
  ctx: LoadContext,
  draft: EngineDraft,
  url: URL | undefined,
  template: readonly string[],
): Stated[] {
  const { path } = draft.entry;
  const section = [...path, draft.engine.section];
  const found: Stated[] = [];
  const add = (port: number, where: KeyPath, what: string): void => {
    if (Number.isInteger(port)) found.push({ port, path: where, what });
  };
  if (url !== undefined) {
    if (url.port !== "") add(Number(url.port), [...path, "url"], "port");
    else if (!draft.spawn || url.protocol === "https:")
      add(url.protocol === "https:" ? 443 : 80, [...path, "url"], "port");
  }
  if (draft.common.port !== undefined) add(draft.common.port, [...path, "port"], "port");
  const sectionPort = at(draft.options, ["port"]);
  if (isWritten(ctx, [...section, "port"]) && typeof sectionPort === "number")
    add(sectionPort, [...section, "port"], "port");
  const ofSection = userValue(extraArgs(draft), ["--port"]);
  if (ofSection !== undefined) add(Number(ofSection), [...section, "extra_args"], "--port");
  const ofModel = userValue(draft.model?.extraArgs ?? [], ["--port"]);
  if (ofModel !== undefined) add(Number(ofModel), ["models", draft.model?.name ?? "", "extra_args"], "--port");
  const ofTemplate = userValue(template, ["--port"]);
  if (ofTemplate !== undefined) add(Number(ofTemplate), ["agent", "vllm_cmd"], "--port");
  return found;
}

function extraArgs(draft: EngineDraft): readonly string[] {
  const written = at(draft.options, ["extra_args"]);
  return Array.isArray(written) ? written.map(String) : [];
}

function address(ctx: LoadContext, draft: EngineDraft, url: URL | undefined, port: number): EngineAddress {
  const ofUrl = url?.hostname.replace(/^\[(.*)\]$/, "$1");
  const section = [...draft.entry.path, draft.engine.section, "host"];
  const sectionHost = isWritten(ctx, section) ? at(draft.options, ["host"]) : undefined;
  const ofArgs = userValue([...extraArgs(draft), ...(draft.model?.extraArgs ?? [])], ["--host"]);
  const bound = typeof sectionHost === "string" ? sectionHost : (ofUrl ?? ofArgs ?? "127.0.0.1");
  if (draft.spawn && ofUrl !== undefined && !answersOn(bound, ofUrl)) {
    report(ctx, section, {
      problem: `the engine would listen on ${bound} and be asked on ${ofUrl} (${placeText(ctx, [...draft.entry.path, "url"])})`,
      remedy: "Write the same host in both, or 0.0.0.0 here",
    });
  }
  const asked = ofUrl ?? bound;
  const reached = isWildcardHost(asked) ? "127.0.0.1" : asked;
  const scheme = url?.protocol === "https:" ? "https" : "http";
  return { url: `${scheme}://${reached.includes(":") ? `[${reached}]` : reached}:${port}`, host: bound, port };
}

function answersOn(bound: string, asked: string): boolean {
  if (isWildcardHost(bound) || bound === asked || isWildcardHost(asked)) return true;
  return isLoopbackHost(bound) && isLoopbackHost(asked);
}

/** Two engines at one place, or an engine where a daemon of cgn listens. */
function reportClashes(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  addresses: readonly EngineAddress[],
  listeners: ReadonlyMap<number, KeyPath>,
): void {
  const owners = new Map<string, KeyPath>();
  for (const [n, draft] of drafts.entries()) {
    const { url, host, port } = addresses[n]!;
    const onThisHost = draft.spawn || isLoopbackHost(new URL(url).hostname);
    const owner = owners.get(onThisHost ? String(port) : url);
    if (owner !== undefined) {
      report(ctx, addressKey(ctx, draft), {
        problem: `port ${port} is already the port of ${placeText(ctx, owner)}`,
        remedy: "Give each engine its own port: write another url or port here",
      });
    }
    owners.set(onThisHost ? String(port) : url, draft.entry.path);
    const listener = draft.spawn ? listeners.get(port) : undefined;
    if (listener === undefined) continue;
    const written = isWritten(ctx, listener);
    report(ctx, addressKey(ctx, draft), {
      severity: written ? "error" : "warning",
      problem: `${host}:${port} is also where ${placeText(ctx, listener)} listens${written ? "" : " by default"}`,
      remedy: `Write another port here, or another ${listener.join(".")}`,
    });
  }
}

/** The key that says where this engine listens, as far as one was written. */
function addressKey(ctx: LoadContext, draft: EngineDraft): KeyPath {
  const { path } = draft.entry;
  const keys = [
    [...path, "url"],
    [...path, "port"],
    [...path, draft.engine.section, "port"],
  ];
  return keys.find((key) => isWritten(ctx, key)) ?? path;
}
