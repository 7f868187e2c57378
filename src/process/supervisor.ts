import type { CgnError } from "../core/errors.ts";
import { CrashCount } from "./crash-count.ts";
import { exitCause, exitError, notReadyError, type OutputView, ownedError, startError } from "./exit-cause.ts";
import { Health, type Look } from "./health.ts";
import { KeptRuns } from "./kept-runs.ts";
import { type Effect, type Event, isAlive, type State, step, wakeAt } from "./lifecycle.ts";
import { startLogKeeper } from "./log-keeper.ts";
import { oomKillsSince, readOomKills } from "./oom-kills.ts";
import {
  adoptProcess,
  claimPidFile,
  disclaimPidFile,
  endKept,
  endLeftovers,
  launchFingerprint,
  otherOwner,
  processStartTime,
  readPidFile,
} from "./pid-file.ts";
import { openProcessOutput, type ProcessOutput } from "./process-output.ts";
import type { Env, ProcessSpec, ProcessStatus, SupervisorDeps } from "./process-spec.ts";
import { isShortage } from "./shortage.ts";
import { type Exit, type ProcessHandle, spawnProcess } from "./spawn.ts";
import { stateReason } from "./state-reason.ts";
import type { StopRequest } from "./stop-request.ts";

/** One start. `handle` is undefined while it is being prepared. */
interface Run {
  handle?: ProcessHandle;
  cancelled: boolean;
  readonly health: Health;
  /** When it was ready first. */
  readyMs?: number;
  /** The kernel's count before it. */
  readonly oomKills: number | undefined;
}

/** Milliseconds between looks at a loading process: short at first (llama.cpp is ready in 0.3 s), then a second. */
const LOAD_PROBE_MS: readonly number[] = [50, 50, 100, 100, 200, 200, 300, 500];
const SLOW_PROBE_MS = 1_000;
/** After a look without an answer the next one follows soon: three in a row decide. */
const SILENT_PROBE_MS = 500;
const PROGRESS_MS = 200;

/**
 * Keeps one process running: carries out what `lifecycle.ts` decides. Every change of state goes through `#dispatch`; effects
 * come back as events. Owns the process, its timers and its log file.
 */
export class Supervisor {
  readonly #spec: ProcessSpec;
  readonly #deps: SupervisorDeps;
  readonly #output: ProcessOutput;
  readonly #kept: KeptRuns;
  readonly #crashes = new CrashCount();
  #state: State = { at: "stopped" };
  #sinceMs: number;
  #reason = "not started";
  #error: CgnError | undefined;
  #run: Run | undefined;
  #epoch = 0;
  #starts = 0;
  #load: ProcessStatus["load"];
  #released = false;
  #launching: Promise<void> = Promise.resolve();
  #isWanted = false;
  #stopWhy: string | undefined;
  #cancelWake: () => void = () => {};
  #cancelProbe: () => void = () => {};
  #cancelProgress: (() => void) | undefined;
  #endDrain = new AbortController();
  #waiters: (() => void)[] = [];

  constructor(spec: ProcessSpec, deps: SupervisorDeps) {
    this.#spec = spec;
    this.#deps = deps;
    this.#sinceMs = deps.clock.now();
    this.#epoch = spec.epochAbove ?? 0;
    this.#kept = new KeptRuns(spec.logFile, deps.log);
    this.#output = openProcessOutput({
      path: spec.logFile,
      bounds: spec.logBounds,
      direct: spec.pidFile !== undefined,
      clock: deps.clock,
      log: deps.log,
      onLines: () => this.#publishSoon(),
    });
  }

  /** Have it run. One that drains is taken back, one that ends is started anew once it is gone. */
  start(): void {
    this.#isWanted = true;
    this.#stopWhy = undefined;
    if (isOver(this.#state)) {
      this.#error = undefined;
      this.#crashes.clear();
    }
    this.#dispatch("start");
    // A stop that waits is over.
    this.#wakeWaiters();
  }

  /** It was asked to run, and not to stop since. */
  get isWanted(): boolean {
    return this.#isWanted;
  }

  /** Settles when the process is ready, has failed or is stopped. */
  async settled(): Promise<ProcessStatus> {
    while (!this.#released && !isSettled(this.#state)) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
    return this.status();
  }

  /** End it: drain, SIGTERM, SIGKILL. Settles when it is gone, or when `start()` took it back. */
  async stop(request: StopRequest = {}): Promise<void> {
    this.#isWanted = false;
    this.#stopWhy = request.why;
    if (request.drainMs === 0) this.#dispatch("drained");
    this.#dispatch("stop", undefined, request.drainMs);
    while (!this.#released && !this.#isWanted && !isOver(this.#state)) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
    if (!this.#isWanted) await this.#output.close();
  }

  /** Let it run and look away; only for a process with a pid file. */
  async release(): Promise<void> {
    this.#released = true;
    this.#cancelWake();
    this.#cancelProbe();
    this.#cancelProgress?.();
    this.#wakeWaiters();
    // A start that is being prepared makes no process any more; one that has made it is waited for, for its pid file.
    await this.#launching;
    const handle = this.#run?.handle;
    handle?.release();
    if (this.#spec.pidFile !== undefined && handle !== undefined) disclaimPidFile(this.#spec.pidFile, handle.pid);
    await this.#output.close();
  }

  status(): ProcessStatus {
    const pid = this.#run?.handle?.pid;
    const now = this.#deps.clock.now();
    return {
      at: this.#state.at,
      reason: this.#reason,
      epoch: this.#epoch,
      starts: this.#starts,
      sinceMs: this.#sinceMs,
      lastLine: this.#output.tail.last(1)[0] ?? "",
      crashes: this.#crashes.text(now),
      looping: this.#crashes.isLoop(now),
      ...this.#kept.paths(),
      ...(pid === undefined ? {} : { pid }),
      ...(this.#load === undefined ? {} : { load: this.#load }),
      ...(this.#error === undefined ? {} : { error: this.#error }),
    };
  }

  /** The last lines of its output, oldest first. */
  tail(count: number): readonly string[] {
    return this.#output.tail.last(count);
  }

  get droppedLogBytes(): number {
    return this.#output.droppedBytes;
  }

  #dispatch(event: Event, why?: string, drainMs = this.#spec.policy.drainMs): void {
    if (this.#released) return;
    const { clock, random, log } = this.#deps;
    const before = this.#state;
    const [next, ...effects] = step(before, event, clock.now(), { ...this.#spec.policy, drainMs }, random());
    this.#state = next;
    const moved = next.at !== before.at;
    if (moved) {
      this.#sinceMs = clock.now();
      this.#reason = why ?? this.#defaultReason(before, event);
      log.debug("process changed state", { from: before.at, to: next.at, reason: this.#reason });
    }
    if (next.at === "killing" && before.at === "starting") this.#blameLoad(event);
    for (const effect of effects) this.#carryOut(effect);
    this.#arm();
    if (moved && before.at === "draining") this.#endDrain.abort();
    if (moved && next.at === "draining") this.#drain();
    if (!moved) return;
    this.#deps.onChange(this.status());
    // Asked to run while it ended.
    if (this.#state.at === "stopped" && this.#isWanted) this.#dispatch("start");
    else if (isSettled(this.#state)) this.#wakeWaiters();
  }

  #carryOut(effect: Effect): void {
    if (effect === "spawn") this.#launching = this.#launch();
    // A run that was ready has its past failure behind it.
    if (effect === "admit") {
      this.#error = undefined;
      if (this.#run !== undefined) this.#run.readyMs ??= this.#deps.clock.now();
    }
    // Told before a signal that follows: a router must not choose it any more.
    if (effect === "evict") this.#deps.onChange(this.status());
    if (effect !== "sigterm" && effect !== "sigkill") return;
    const run = this.#run;
    // A start that is still being prepared has no process to signal: it ends before it makes one.
    if (run !== undefined && run.handle === undefined) run.cancelled = true;
    else if (effect === "sigterm") run?.handle?.terminate();
    else run?.handle?.kill();
  }

  #arm(): void {
    this.#cancelWake();
    const at = wakeAt(this.#state);
    if (at === undefined) return;
    const { clock } = this.#deps;
    this.#cancelWake = clock.after(Math.max(1, Math.ceil(at - clock.now())), () => this.#dispatch("tick"));
  }

  #drain(): void {
    this.#endDrain = new AbortController();
    const done = (): void => this.#dispatch("drained");
    this.#spec.drained?.(this.#endDrain.signal).then(done, done);
  }

  /** Settles once there is a process, or there will be none. */
  async #launch(): Promise<void> {
    const run: Run = { cancelled: false, health: new Health(), oomKills: readOomKills() };
    this.#run = run;
    const startedMs = this.#deps.clock.now();
    this.#load = { startedMs, deadlineMs: startedMs + this.#spec.policy.readyMs };
    try {
      const env = this.#spec.env();
      const handle = (await this.#findKept()) ?? (await this.#spawn(run, env));
      if (handle === undefined) return this.#ended(run, {});
      run.handle = handle;
    } catch (error) {
      return this.#startFailed(run, startError(this.#spec.name, error));
    }
    if (run.cancelled) run.handle.kill();
    this.#probeLater(run, 0);
    void this.#watchEnd(run, run.handle);
  }

  async #watchEnd(run: Run, handle: ProcessHandle): Promise<void> {
    const exit = await handle.exited;
    await this.#output.catchUp();
    this.#ended(run, exit);
  }

  /** The process that an earlier agent left running, when it is still the wanted one. */
  async #findKept(): Promise<ProcessHandle | undefined> {
    const { name, pidFile, keptAs, argv, ownEnv, policy } = this.#spec;
    if (pidFile === undefined) return undefined;
    const found = readPidFile(pidFile);
    if (found === undefined) return undefined;
    const { kept } = found;
    const owner = otherOwner(kept);
    if (found.runs && owner !== undefined) throw ownedError(name, kept.pid, owner);
    // The next one's is above it, also within the same second.
    this.#epoch = Math.max(this.#epoch, kept.epoch);
    if (!found.runs) {
      await endLeftovers(kept);
      return undefined;
    }
    if (kept.fingerprint !== launchFingerprint(argv, ownEnv)) {
      this.#deps.log.info("engine runs with another configuration and is started anew", { pid: kept.pid });
      await endKept(kept, policy.graceMs);
      return undefined;
    }
    this.#deps.log.info("found the engine running", { pid: kept.pid });
    claimPidFile(pidFile, { ...kept, ...(keptAs === undefined ? {} : { as: keptAs }) });
    this.#output.begin(true);
    await this.#spec.adopted?.();
    return adoptProcess(kept);
  }

  async #spawn(run: Run, env: Env): Promise<ProcessHandle | undefined> {
    const { argv, ownEnv, pidFile, keptAs, prepare, oomScoreAdj, logBounds } = this.#spec;
    this.#output.begin(false);
    await prepare(env);
    if (run.cancelled || this.#released) return undefined;
    // More than any epoch before, also those of an earlier agent.
    const epoch = Math.max(this.#epoch + 1, Math.floor(this.#deps.clock.wall() / 1_000));
    this.#epoch = epoch;
    this.#starts++;
    const remember = (path: string) => (pid: number, mark: string) => {
      const startTime = processStartTime(pid) ?? "";
      const fingerprint = launchFingerprint(argv, ownEnv);
      const kept = { pid, startTime, fingerprint, epoch, run: mark };
      claimPidFile(path, { ...kept, ...(keptAs === undefined ? {} : { as: keptAs }) });
      startLogKeeper(pid, this.#output.path, logBounds);
    };
    return spawnProcess({
      argv,
      env,
      onOutput: (chunk) => this.#output.push(chunk),
      guarded: pidFile === undefined,
      onGuardLost: () => this.#dispatch("lost", "its guard process was killed"),
      ...(oomScoreAdj === undefined ? {} : { oomScoreAdj }),
      ...(this.#output.fd === undefined ? {} : { outputFd: this.#output.fd }),
      ...(pidFile === undefined ? {} : { beforeStart: remember(pidFile) }),
    });
  }

  #startFailed(run: Run, error: CgnError): void {
    if (this.#run !== run || this.#released) return;
    this.#run = undefined;
    if (run.cancelled) {
      this.#dispatch("exit");
      return;
    }
    this.#error = error;
    // A port that our last process held may need a moment to be free, and so may file descriptors; else what fails the first
    // time will not mend itself.
    const retry = (this.#state.at === "starting" && this.#state.proven) || isShortage(error);
    this.#deps.log.debug("process cannot be started", { err: error, retry });
    this.#dispatch(retry ? "exit" : "fatal", error.message.split("\n")[0]);
  }

  #ended(run: Run, exit: Exit): void {
    if (this.#run !== run || this.#released) return;
    this.#run = undefined;
    this.#cancelProbe();
    const state = this.#state;
    const nowMs = this.#deps.clock.now();
    if (run.readyMs !== undefined && nowMs - run.readyMs >= this.#spec.policy.stableMs) {
      this.#kept.save("good", this.#output.record);
    }
    if (run.cancelled || state.at === "stopping" || state.at === "draining") {
      this.#dispatch("exit");
      return;
    }
    this.#crashes.note(nowMs);
    if (run.handle !== undefined) this.#kept.save("bad", this.#output.record);
    const cause = exitCause(exit, this.#output.tail.last(200), oomKillsSince(run.oomKills));
    // Why we killed it is known better than what its last lines say.
    const ours = state.at === "killing";
    if (!ours || this.#error === undefined) this.#error = exitError(this.#spec.name, exit, cause, this.#view());
    const why = ours ? this.#reason : cause.what;
    this.#deps.log.debug("process ended", { why, ...exit });
    this.#deps.onExit?.(ours ? "killed-by-agent" : cause.cause);
    const hopeless = state.at === "starting" && !state.proven && cause.permanent;
    this.#dispatch(hopeless ? "fatal" : "exit", why);
  }

  #probeLater(run: Run, count: number): void {
    this.#cancelProbe();
    const { at } = this.#state;
    const often = at === "starting" ? (LOAD_PROBE_MS[count] ?? SLOW_PROBE_MS) : this.#spec.healthEveryMs;
    const ms = at !== "starting" && run.health.isSilent ? SILENT_PROBE_MS : often;
    if (ms !== undefined) this.#cancelProbe = this.#deps.clock.after(ms, () => void this.#probe(run, count));
  }

  async #probe(run: Run, count: number): Promise<void> {
    const { clock } = this.#deps;
    const askedMs = clock.now();
    const verdict = await this.#spec.check(this.#state.at === "starting").catch((): Look => "unasked");
    if (this.#run !== run || this.#released || !isAlive(this.#state)) return;
    const found = run.health.judge(verdict, this.#state.at === "starting", askedMs, clock.now());
    if (found !== undefined) this.#dispatch(found.event, found.why);
    if (this.#run === run) this.#probeLater(run, count + 1);
  }

  #blameLoad(event: Event): void {
    if (event === "lost") return;
    const afterMs = event === "tick" ? this.#spec.policy.readyMs : undefined;
    this.#error = notReadyError(this.#spec.name, afterMs, this.#view());
  }

  /** The output as errors show it. */
  #view(): OutputView {
    const { path, tail } = this.#output;
    return { path, tail, crashes: this.#crashes.text(this.#deps.clock.now()), ...this.#kept.paths() };
  }

  #defaultReason(before: State, event: Event): string {
    const health = this.#run?.health;
    const hung = health?.isSilent ? health.hungText(this.#deps.clock.now()) : this.#reason;
    return stateReason(this.#state, before, event, this.#spec.policy, { hung, stopped: this.#stopWhy });
  }

  #publishSoon(): void {
    if (this.#state.at !== "starting" || this.#cancelProgress !== undefined) return;
    this.#cancelProgress = this.#deps.clock.after(PROGRESS_MS, () => {
      this.#cancelProgress = undefined;
      if (!this.#released) this.#deps.onChange(this.status());
    });
  }

  #wakeWaiters(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }
}

const isOver = ({ at }: State): boolean => at === "failed" || at === "stopped";
const isSettled = ({ at }: State): boolean => at === "ready" || at === "failed" || at === "stopped";
