import { isDeepStrictEqual } from "node:util";
import type { Agent } from "../agent/agent.ts";
import { formatProblem } from "../config/problems.ts";
import type { Settings } from "../config/settings.ts";
import { isCgnError, type Problem, toCgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { ReloadReport } from "../core/reload-report.ts";
import type { Router } from "../router/create-router.ts";
import { TUNED } from "../router/tuning.ts";
import type { CliContext } from "./command.ts";
import { requireEngines } from "./require-engines.ts";

/** Reads the configuration again, on SIGHUP and when the admin port is asked to. */
export interface Reloader {
  /** @throws CgnError as loading does; nothing has changed then */
  reload(): Promise<ReloadReport>;
  /** It has taken over a configuration since the start. */
  readonly hasReloaded: boolean;
  close(): void;
}

export interface ReloaderOptions {
  /** As at the start: the same file, variables and flags. `before`: what runs now. */
  readonly load: (before: Settings) => Promise<Settings>;
  readonly settings: Settings;
  readonly agent: () => Agent | undefined;
  /** The router of this process, where it has one. */
  readonly router?: () => Pick<Router, "retune"> | undefined;
  readonly log: Log;
  readonly cli: Pick<CliContext, "onHangup">;
}

/** Sections that are read at the start only; of the router's, what is not in TUNED. */
const AT_START = ["cluster", "router", "kv", "security", "auth", "metrics"] as const;

export function createReloader({ load, settings, agent, router, log, cli }: ReloaderOptions): Reloader {
  let hasReloaded = false;
  let running = settings;
  const reload = async (): Promise<ReloadReport> => {
    const next = await load(running);
    const current = agent();
    const front = router?.();
    if (current === undefined && front === undefined) return NOTHING;
    if (current !== undefined) requireEngines(next, "reload");
    // It refuses a policy that there is not, before anything has changed.
    front?.retune(next.router);
    const report = current === undefined ? NOTHING : await reloadAgent(current, next, log);
    const applied =
      front === undefined ? [] : TUNED.filter((key) => !isDeepStrictEqual(running.router[key], next.router[key]));
    hasReloaded = true;
    running = next;
    const sections = AT_START.filter(
      (name) => !isDeepStrictEqual(fixed(settings, name, front), fixed(next, name, front)),
    );
    if (sections.length > 0) log.warn("sections that count when this process is started anew", { sections });
    return { ...report, applied: applied.map((key) => `router.${KEYS[key]}`), later: [...report.later, ...sections] };
  };
  const leave = cli.onHangup?.(() => {
    reload().catch((error: unknown) =>
      log.error("configuration is not reloaded, nothing has changed", { err: told(error) }),
    );
  });
  return {
    reload,
    get hasReloaded() {
      return hasReloaded;
    },
    close: () => leave?.(),
  };
}

const NOTHING: ReloadReport = { restarted: [], started: [], stopped: [], untouched: [], later: [] };

/** As the file spells them. */
const KEYS = { policy: "policy", scoreWeights: "score_weights", admission: "admission" } as const;

/** What of a section counts at the start only. */
function fixed(settings: Settings, name: (typeof AT_START)[number], front: unknown): unknown {
  if (name !== "router" || front === undefined) return settings[name];
  return Object.fromEntries(Object.entries(settings.router).filter(([key]) => !TUNED.some((tuned) => tuned === key)));
}

async function reloadAgent(agent: Agent, next: Settings, log: Log): Promise<ReloadReport> {
  const { done, ...report } = await agent.reload(next);
  done.catch((err: unknown) => log.error("the reload did not come to its end", { err: toCgnError(err) }));
  return report;
}

/** The message, and each problem with its place. */
function told(error: unknown): string {
  const problems: readonly Problem[] = isCgnError(error, "CONFIG_INVALID") ? error.details.problems : [];
  return [toCgnError(error).message, ...problems.map(formatProblem)].join("\n");
}
