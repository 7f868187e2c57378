import type { Settings } from "../config/settings.ts";
import { CgnError } from "../core/errors.ts";
import { RELOAD_PATH, type ReloadReport } from "../core/reload-report.ts";
import { dialHost, hostPort, isLoopbackHost } from "../engines/address.ts";
import { fetchText } from "../http/fetch-text.ts";
import { ADMIN_OPTIONS, adminKey, baseUrl, guardByConfiguration, whySilent, wordsOf } from "./admin-client.ts";
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
    const places = typeof admin === "string" ? [baseUrl(admin, "--admin")] : adminPlaces(settings);
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
  const whys: string[] = [];
  for (const place of places) {
    const answer = await ask(what, place, path, asker);
    if (typeof answer === "object") return answer;
    whys.push(`${place}: ${answer}`);
  }
  const should = "Start cgn agent or cgn up there, or name its admin port with --admin";
  throw new CgnError("DEPENDENCY_UNREACHABLE", `Cannot ${what}: ${whys.join("; ")}. ${should}`, { places });
}

/** Whose certificates and keys the question has. */
export interface Asker {
  readonly options: Values;
  readonly cli: CliContext;
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
 * @returns why it cannot be asked there: nothing listens, or something that does not do such things
 * @throws CgnError when it refuses
 */
async function ask(what: string, place: string, path: string, { options, cli }: Asker): Promise<ReloadReport | string> {
  const leave = place.startsWith("https:") ? guardByConfiguration(options, cli) : () => {};
  const key = adminKey(options, cli);
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const reply = await fetchText(`${place}${path}`, { method: "POST", headers, timeoutMs: TIMEOUT_MS });
  leave();
  if (reply.status === 0) return whySilent(reply);
  if (reply.status === 200) return JSON.parse(reply.body) as ReloadReport;
  const said = wordsOf(reply.body);
  if (reply.status === 404 || reply.status === 405)
    return said ?? `it answers ${reply.status}, so it is no daemon of cgn`;
  throw new CgnError("CONFIG_INVALID", `Cannot ${what} at ${place}: ${said ?? `it answers ${reply.status}`}`, {
    problems: [],
  });
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
