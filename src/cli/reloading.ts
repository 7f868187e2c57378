import { isDeepStrictEqual } from "node:util";
import type { Agent } from "../agent/agent.ts";
import { formatProblem } from "../config/problems.ts";
import type { Settings } from "../config/settings.ts";
import { isCgnError, type Problem, toCgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { ReloadReport } from "../core/reload-report.ts";
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
  readonly log: Log;
  readonly cli: Pick<CliContext, "onHangup">;
}

/** Sections that are read at the start only. */
const AT_START = ["cluster", "router", "kv", "security", "auth", "metrics"] as const;

export function createReloader({ load, settings, agent, log, cli }: ReloaderOptions): Reloader {
  let hasReloaded = false;
  let running = settings;
  const reload = async (): Promise<ReloadReport> => {
    const next = await load(running);
    requireEngines(next, "reload");
    const current = agent();
    if (current === undefined) return NOTHING;
    const { done, ...report } = await current.reload(next);
    hasReloaded = true;
    running = next;
    done.catch((err: unknown) => log.error("the reload did not come to its end", { err: toCgnError(err) }));
    const sections = AT_START.filter((name) => !isDeepStrictEqual(settings[name], next[name]));
    if (sections.length > 0) log.warn("sections that count when this process is started anew", { sections });
    return { ...report, later: [...report.later, ...sections] };
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

/** The message, and each problem with its place. */
function told(error: unknown): string {
  const problems: readonly Problem[] = isCgnError(error, "CONFIG_INVALID") ? error.details.problems : [];
  return [toCgnError(error).message, ...problems.map(formatProblem)].join("\n");
}
