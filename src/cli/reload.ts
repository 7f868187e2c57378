import type { Settings } from "../config/settings.ts";
import { CgnError } from "../core/errors.ts";
import { RELOAD_PATH, type ReloadReport } from "../core/reload-report.ts";
import { dialHost, hostPort, isLoopbackHost } from "../engines/address.ts";
import { ADMIN_OPTIONS, adminKey, guardByConfiguration } from "./admin-client.ts";
import { type CliContext, CONFIG_OPTIONS, type Command, type Values } from "./command.ts";
import { loadForCommand, PICK_OPTIONS } from "./load-config.ts";

/** `cgn reload`: let a running `cgn agent`, `cgn router` or `cgn up` take over its changed file. */
export const reloadCommand: Command = {
  name: "reload",
  about: "let a running cgn agent, router or up take over its changed file; engines that did not change go on",
  examples: ["cgn reload", "cgn reload --config cgn.toml", "cgn reload --admin 127.0.0.1:9191", "kill -HUP PID"],
  options: {
    ...CONFIG_OPTIONS,
    ...PICK_OPTIONS,
    admin: { type: "string", value: "HOST:PORT|URL", about: "its admin port (default: as the file says)" },
    "key-file": ADMIN_OPTIONS["key-file"],
  },
  async run({ options }, cli) {
    // What is wrong in the file is told here, with its place, before anybody is asked.
    const settings = loadForCommand(options, cli);
    const admin = options["admin"];
    const places = typeof admin === "string" ? [adminPlace(admin)] : adminPlaces(settings);
    for (const line of reloadLines(await askDaemon("reload", RELOAD_PATH, places, { options, cli }))) cli.out(line);
    return 0;
  },
};

/**
 * Ask the daemon for a change that answers at one of these admin ports.
 * @throws CgnError CONFIG_INVALID when it refuses; DEPENDENCY_UNREACHABLE when there is none
 */
export async function askDaemon(
  what: string,
  path: string,
  places: readonly string[],
  asker: Asker,
): Promise<ReloadReport> {
  for (const place of places) {
    const report = await ask(what, place, path, asker);
    if (report !== undefined) return report;
  }
  const where = places.join(" and ");
  throw new CgnError(
    "DEPENDENCY_UNREACHABLE",
    `Cannot ${what}: no cgn agent, no cgn router and no cgn up answers at ${where}. Start one, or name its admin port by --admin`,
    { places },
  );
}

/** Whose certificates and keys the question has. */
export interface Asker {
  readonly options: Values;
  readonly cli: CliContext;
}

/** The base URL of an admin port that a flag names. */
export function adminPlace(text: string): string {
  return (/^https?:\/\//.test(text) ? text : `http://${text}`).replace(/\/+$/, "");
}

/** An agent's admin port, and the router's of `cgn up`: off loopback they speak TLS where there is a certificate. */
export function adminPlaces({ agent, metrics, router, security }: Settings): string[] {
  const listens = [agent.listenAdmin ?? metrics.listen, router.listenAdmin];
  const urls = listens.map(({ host, port }) => {
    const scheme = security.certFile === undefined || isLoopbackHost(host) ? "http" : "https";
    return `${scheme}://${hostPort(dialHost(host), port)}`;
  });
  return [...new Set(urls)];
}

const TIMEOUT_MS = 30_000;

/**
 * @returns undefined when nothing listens there, or something that does not know the path
 * @throws CgnError when it refuses
 */
async function ask(
  what: string,
  place: string,
  path: string,
  { options, cli }: Asker,
): Promise<ReloadReport | undefined> {
  const leave = place.startsWith("https:") ? guardByConfiguration(options, cli) : () => {};
  const key = adminKey(options, cli);
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  let reply: Response;
  try {
    reply = await fetch(`${place}${path}`, { method: "POST", headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    return undefined;
  } finally {
    leave();
  }
  const text = await reply.text();
  if (reply.status === 404 || reply.status === 405) return undefined;
  if (reply.ok) return JSON.parse(text) as ReloadReport;
  throw new CgnError("CONFIG_INVALID", `Cannot ${what} at ${place}: ${messageOf(text)}`, { problems: [] });
}

function messageOf(text: string): string {
  try {
    return (JSON.parse(text) as { error?: { message?: string } }).error?.message ?? text;
  } catch {
    return text;
  }
}

/** What a reload does, a line each. */
export function reloadLines({ restarted, started, stopped, untouched, later, applied = [] }: ReloadReport): string[] {
  return [
    ...restarted.map(({ id, changes }) => `restart  ${id}  ${changes.join(", ")}`),
    ...started.map((id) => `start    ${id}`),
    ...stopped.map((id) => `stop     ${id}`),
    ...untouched.map((id) => `keep     ${id}`),
    ...applied.map((key) => `apply    ${key}`),
    ...later.map((key) => `later    ${key}  counts when cgn is started anew`),
    ...(restarted.length + started.length + stopped.length + applied.length === 0 ? ["No engine changes"] : []),
  ];
}
