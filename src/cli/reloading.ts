import { isDeepStrictEqual } from "node:util";
import type { Agent } from "../agent/agent.ts";
import { formatProblem } from "../config/problems.ts";
import type { Settings } from "../config/settings.ts";
import { ROLES, type Role } from "../core/engine-kind.ts";
import { CgnError, isCgnError, type Problem, toCgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { ReloadReport } from "../core/reload-report.ts";
import type { Router } from "../router/create-router.ts";
import { TUNED } from "../router/tuning.ts";
import type { CliContext } from "./command.ts";
import { GivenRoles } from "./given-roles.ts";
import type { Shortcuts } from "./load-config.ts";
import { requireEngines } from "./require-engines.ts";

/** Reads the configuration again, on SIGHUP and when the admin port is asked to. */
export interface Reloader {
  /** @throws CgnError as loading does; nothing has changed then */
  reload(): Promise<ReloadReport>;
  /**
   * Give an engine, or all of a node, another role: drained, and started anew with the commands of that role.
   * @throws CgnError REQUEST_INVALID, and as loading does for what the engine does not accept; nothing has changed then
   */
  changeRole(node: string, role: string): Promise<ReloadReport>;
  /** It has taken over a configuration since the start. */
  readonly hasReloaded: boolean;
  close(): void;
}

export interface ReloaderOptions {
  /** As at the start: the same file, variables and flags. `before`: what runs now. `roles`: in place of `--role` and the file's. */
  readonly load: (before: Settings, roles?: Shortcuts) => Promise<Settings>;
  readonly settings: Settings;
  readonly agent: () => Agent | undefined;
  /** The router of this process, where it has one. */
  readonly router?: () => Pick<Router, "retune"> | undefined;
  readonly log: Log;
  readonly cli: Pick<CliContext, "onHangup">;
}

/** Sections that are read at the start only; of the router's, what is not in TUNED. */
const AT_START = ["cluster", "router", "kv", "security", "auth", "metrics", "tracing"] as const;

export function createReloader({ load, settings, agent, router, log, cli }: ReloaderOptions): Reloader {
  let hasReloaded = false;
  let running = settings;
  let given = new GivenRoles();
  // One after the other: each starts from the roles that the one before left.
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = (run: () => Promise<ReloadReport>): Promise<ReloadReport> => {
    const own = last.then(run);
    last = own.catch(() => {});
    return own;
  };
  const reload = async (): Promise<ReloadReport> => {
    const written = await load(running);
    const roles = given.stillGiven(written);
    const report = await takeOver(roles.isEmpty ? written : await load(running, roles.shortcuts(written)));
    given = roles;
    return report;
  };
  const changeRole = async (node: string, role: string): Promise<ReloadReport> => {
    const engines = enginesOf(agent(), node, requireRole(role));
    const written = await load(running);
    const roles = given.stillGiven(written).with(engines, requireRole(role), written);
    const report = await takeOver(await load(running, roles.shortcuts(written)));
    given = roles;
    return report;
  };
  const takeOver = async (next: Settings): Promise<ReloadReport> => {
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
    const sections = laterSections(settings, next, front);
    const keys = applied.map((key) => `router.${KEYS[key]}`);
    const { restarted, started, stopped } = report;
    log.info("configuration reloaded", {
      applied: keys,
      restarted: restarted.map(({ id }) => id),
      started,
      stopped,
    });
    if (sections.length > 0) log.warn("sections that count when this process is started anew", { sections });
    return { ...report, applied: keys, later: [...report.later, ...sections] };
  };
  const leave = cli.onHangup?.(() => {
    inTurn(reload).catch((error: unknown) =>
      log.error("configuration is not reloaded, nothing has changed", { err: told(error) }),
    );
  });
  return {
    reload: () => inTurn(reload),
    changeRole: (node, role) => inTurn(() => changeRole(node, role)),
    get hasReloaded() {
      return hasReloaded;
    },
    close: () => leave?.(),
  };
}

/** @throws CgnError REQUEST_INVALID */
function requireRole(role: string): Role {
  const known = ROLES.find((each) => each === role);
  if (known !== undefined) return known;
  throw new CgnError(
    "REQUEST_INVALID",
    `Cannot give role "${role}": there is no such role. There is ${ROLES.join(", ")}`,
    {},
  );
}

/** @throws CgnError REQUEST_INVALID */
function enginesOf(agent: Agent | undefined, node: string, role: Role): readonly { readonly url: string }[] {
  const all = agent?.status() ?? [];
  const meant = all.filter(({ worker }) => worker.id === node || worker.node === node);
  if (meant.length === 0) {
    const known = [...new Set(all.map(({ worker }) => worker.node))].join(", ");
    const message = `Cannot give "${node}" the role ${role}: this agent has no such engine or node. It has ${known || "none"}`;
    throw new CgnError("REQUEST_INVALID", message, {});
  }
  const adopted = meant.find(({ spawned }) => !spawned);
  if (adopted === undefined) return meant.map(({ worker }) => worker);
  const message = `Cannot give ${adopted.worker.id} the role ${role}: cgn did not start it. Start it anew with that role, and write it in the file`;
  throw new CgnError("REQUEST_INVALID", message, {});
}

const NOTHING: ReloadReport = { restarted: [], started: [], stopped: [], untouched: [], later: [] };

/** As the file spells them. */
const KEYS = {
  policy: "policy",
  scoreWeights: "score_weights",
  admission: "admission",
  cascades: "cascade",
} as const;

/** What has changed since the start and is not taken over. */
function laterSections(settings: Settings, next: Settings, front: unknown): string[] {
  const limits = ({ models }: Settings): object =>
    models.flatMap(({ name, maxPromptTokens }) => (maxPromptTokens === undefined ? [] : [[name, maxPromptTokens]]));
  const sections = AT_START.filter(
    (name) => !isDeepStrictEqual(fixed(settings, name, front), fixed(next, name, front)),
  );
  const hasLimits = front !== undefined && !isDeepStrictEqual(limits(settings), limits(next));
  return [...sections, ...(hasLimits ? ["models.max_prompt_tokens"] : [])];
}

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
