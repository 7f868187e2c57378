//  stopped ─start▶ starting ─probe-ok▶ ready ─stop▶ (draining ▶) stopping ─exit▶ stopped
//  ready ─probe-bad, probe-hung▶ sick ─probe-ok▶ ready; sick ─overdue▶ killing
//  starting ─overdue▶ killing; starting, sick, killing, ready ─exit▶ backoff ─due▶ starting
//  anything that runs ─exit▶ failed when no attempt is left; fatal ▶ failed at once; draining ─start▶ ready

/**
 * Where one engine process is. Times are monotonic milliseconds. `by` is when a state stops waiting, `attempt` counts starts
 * since the last stable run, `proven` tells that the engine was ready once since it was asked to start.
 */
export type State =
  | { readonly at: "stopped" | "failed" }
  | { readonly at: "starting" | "backoff"; readonly attempt: number; readonly proven: boolean; readonly by: number }
  | { readonly at: "ready"; readonly attempt: number; readonly stableAt: number }
  | { readonly at: "sick"; readonly attempt: number; readonly by: number }
  | {
      readonly at: "killing";
      readonly attempt: number;
      readonly proven: boolean;
      readonly by: number;
      readonly final: boolean;
    }
  | { readonly at: "draining"; readonly by: number }
  | { readonly at: "stopping"; readonly by: number; readonly secondAt: number };

export type StateName = State["at"];

/**
 * What happened. `exit`: the whole process group is gone. `fatal`: it ended, or could not be started, and a second try
 * cannot help. `probe-bad`: it says itself that it cannot serve. `probe-hung`: it has said nothing for too long. `lost`: its
 * guard is gone. `drained`: no request is left on it. `tick`: time passed.
 */
export type Event =
  | "start"
  | "probe-ok"
  | "probe-bad"
  | "probe-hung"
  | "exit"
  | "fatal"
  | "lost"
  | "stop"
  | "drained"
  | "tick";

/** What the supervisor must do next, in order. `sigterm` goes to the leader, `sigkill` to the whole group. */
export type Effect = "spawn" | "sigterm" | "sigkill" | "admit" | "evict";

export interface Policy {
  /** From spawn to ready at most. */
  readonly readyMs: number;
  /** How long requests may end before SIGTERM; 0 for engines that drain by themselves on SIGTERM. */
  readonly drainMs: number;
  /** From the first SIGTERM to SIGKILL. */
  readonly graceMs: number;
  /** From the first SIGTERM to a second one; undefined: none. */
  readonly secondTermMs?: number;
  /** How long a running engine may say that it is unwell before it is killed and started again. */
  readonly sickMs: number;
  /** The same for one that says nothing at all: longer, for a busy one may come back. */
  readonly hungMs: number;
  /** After this long in `ready` its past attempts are forgiven. */
  readonly stableMs: number;
  /** Wait before the second attempt is about twice this; it doubles up to `backoffMaxMs`. */
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  /** Starts in a row without a stable run, for an engine that was ready once. */
  readonly maxAttempts: number;
  /** The same for one that never was: a wrong flag should be told soon. */
  readonly firstAttempts: number;
}

/** A SIGKILL that did not end the group (uninterruptible I/O, a late fork) is sent again this often. */
const REKILL_MS = 1_000;

/** The state and what to do about it. */
export type Step = readonly [State, ...Effect[]];

/**
 * Advance one engine process by one event. Pure: the clock and the chance are arguments.
 *
 * An event with no arrow out of a state leaves it unchanged. That absorbs late probes and double stops, so callers never
 * look at the state before acting.
 * @param jitter - in [0, 1): spreads the restarts of engines that died together.
 */
export function step(s: State, e: Event, now: number, p: Policy, jitter = 0): Step {
  const due = e === "tick" && "by" in s && now >= s.by;
  switch (s.at) {
    case "stopped":
    case "failed":
      return e === "start" ? [starting(1, false, now, p), "spawn"] : [s];
    case "starting":
      if (e === "probe-ok") return [{ at: "ready", attempt: s.attempt, stableAt: now + p.stableMs }, "admit"];
      if (e === "stop") return stopping(now, p);
      if (e === "exit") return [afterExit(s.attempt, s.proven, now, p, jitter)];
      if (e === "fatal") return [{ at: "failed" }];
      // Kill and wait for "exit": a new process now could put two on one GPU. One that was never ready in its whole
      // time will not be ready in as much time again.
      if (due || e === "probe-bad") return killing(s.attempt, s.proven, !s.proven, now);
      return e === "lost" ? killing(s.attempt, s.proven, false, now) : [s];
    case "ready":
    case "sick":
      return stepRunning(s, e, due, now, p, jitter);
    case "killing":
      // A probe sent before the kill may still answer; it must not admit a dying process.
      if (e === "exit" || e === "fatal") {
        return [s.final ? { at: "failed" } : afterExit(s.attempt, s.proven, now, p, jitter)];
      }
      if (e === "stop") return [{ at: "stopping", by: now + REKILL_MS, secondAt: Number.POSITIVE_INFINITY }];
      return due ? [{ ...s, by: now + REKILL_MS }, "sigkill"] : [s];
    case "draining":
      if (e === "exit" || e === "fatal") return [{ at: "stopped" }];
      // It was not told to end yet: it is taken back as it is.
      if (e === "start") return [{ at: "ready", attempt: 1, stableAt: now + p.stableMs }, "admit"];
      // Its guard is gone: an agent that dies now would leave it behind, so do not wait for its streams.
      return due || e === "drained" || e === "lost" ? stopping(now, p) : [s];
    case "stopping":
      if (e === "exit" || e === "fatal") return [{ at: "stopped" }];
      if (due) return [{ ...s, by: now + REKILL_MS, secondAt: Number.POSITIVE_INFINITY }, "sigkill"];
      if (e !== "tick" || now < s.secondAt) return [s];
      return [{ ...s, secondAt: Number.POSITIVE_INFINITY }, "sigterm"];
    case "backoff":
      if (e === "stop") return [{ at: "stopped" }];
      return due ? [starting(s.attempt + 1, s.proven, now, p), "spawn"] : [s];
  }
}

type Running = Extract<State, { at: "ready" | "sick" }>;

function stepRunning(s: Running, e: Event, due: boolean, now: number, p: Policy, jitter: number): Step {
  // Out of the routing table before the signal, or requests race the shutdown. A sick one is out already.
  const evict: readonly Effect[] = s.at === "ready" ? ["evict"] : [];
  if (e === "stop") {
    if (p.drainMs > 0) return [{ at: "draining", by: now + p.drainMs }, ...evict];
    const [state, ...effects] = stopping(now, p);
    return [state, ...evict, ...effects];
  }
  if (e === "exit" || e === "fatal") {
    const stable = s.at === "ready" && now >= s.stableAt;
    return [afterExit(stable ? 0 : s.attempt, true, now, p, jitter), ...evict];
  }
  if (e === "lost") return [killing(s.attempt, true, false, now)[0], ...evict, "sigkill"];
  if (s.at === "ready") {
    if (e !== "probe-bad" && e !== "probe-hung") return [s];
    return [{ at: "sick", attempt: s.attempt, by: now + (e === "probe-hung" ? p.hungMs : p.sickMs) }, "evict"];
  }
  if (e === "probe-ok") return [{ at: "ready", attempt: s.attempt, stableAt: now + p.stableMs }, "admit"];
  return due ? killing(s.attempt, true, false, now) : [s];
}

/** When the state wants a `tick`; undefined when it waits for events only. */
export function wakeAt(s: State): number | undefined {
  if (!("by" in s)) return undefined;
  const at = "secondAt" in s ? Math.min(s.by, s.secondAt) : s.by;
  return Number.isFinite(at) ? at : undefined;
}

/** Does a process exist, or may one, in this state? */
export function isAlive(s: State): boolean {
  return s.at !== "stopped" && s.at !== "failed" && s.at !== "backoff";
}

const starting = (attempt: number, proven: boolean, now: number, p: Policy): State => ({
  at: "starting",
  attempt,
  proven,
  by: now + p.readyMs,
});

const stopping = (now: number, p: Policy): Step => [
  { at: "stopping", by: now + p.graceMs, secondAt: now + (p.secondTermMs ?? Number.POSITIVE_INFINITY) },
  "sigterm",
];

const killing = (attempt: number, proven: boolean, final: boolean, now: number): Step => [
  { at: "killing", attempt, proven, final, by: now + REKILL_MS },
  "sigkill",
];

function afterExit(attempt: number, proven: boolean, now: number, p: Policy, jitter: number): State {
  if (attempt >= (proven ? p.maxAttempts : p.firstAttempts)) return { at: "failed" };
  const full = Math.min(p.backoffMaxMs, p.backoffMs * 2 ** attempt);
  return { at: "backoff", attempt, proven, by: now + full * (0.5 + jitter / 2) };
}
