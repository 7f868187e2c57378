/**
 * How no engine outlives its agent, not even one that was killed with SIGKILL.
 *
 * Two small shells, for there is nothing else on both Linux and macOS that outlives a Node process without being one:
 *
 *     agent ──stdin──▶ gate: waits for "go", then becomes the engine (exec: same pid, leader of its own group)
 *     agent ──stdin──▶ guard: knows that pid; waits for "done" or for the end of the pipe
 *
 * Order: gate, guard, guard says "ok", "go". There is no moment at which the agent's death leaves an engine behind: before
 * "go" the gate reads the end of its pipe and exits; after it the guard is in place. The kernel closes the agent's
 * pipes however it dies. The guard's own death is seen by the agent, which ends the group itself (`spawn.ts`).
 *
 * `kill -s NAME -- -PGID` is the one spelling of a group kill that dash, bash 3.2 and busybox share.
 */

/**
 * `sh -c GATE cgn-gate OOM COMMAND…`. Exit 125: the agent went away before "go". 126, 127: the command cannot be run.
 *
 * OOM is the engine's `oom_score_adj` (empty: as it is): when memory runs out the kernel shall end the engine, which is started
 * again, and not the agent.
 */
export const GATE = [
  'read -r word && [ "$word" = go ] || exit 125',
  '[ -n "$1" ] && { echo "$1" >/proc/self/oom_score_adj; } 2>/dev/null',
  "shift",
  'exec "$@" </dev/null',
].join("\n");

/**
 * `sh -c GUARD cgn-guard PID TENTHS MARK`: SIGTERM to the leader, up to TENTHS × 0.1 s for the group to go, then SIGKILL to it, and
 * to whatever has MARK in its environment: a child with a session of its own (a daemon that it started) is in no group of ours.
 * A `sleep` without fractions sleeps a second, so the loop is bounded in both cases by the clock that it has.
 */
export const GUARD = [
  "trap '' HUP INT TERM",
  "echo ok",
  "read -r word && exit 0",
  'kill -s TERM "$1" 2>/dev/null',
  "i=0",
  'while [ "$i" -lt "$2" ] && kill -s 0 -- "-$1" 2>/dev/null; do',
  "  if sleep 0.1 2>/dev/null; then i=$((i+1)); else sleep 1; i=$((i+10)); fi",
  "done",
  'kill -s KILL -- "-$1" 2>/dev/null',
  "for file in /proc/[0-9]*/environ; do",
  '  grep -qs "$3" "$file" || continue',
  '  kill -s KILL "$(basename "$(dirname "$file")")" 2>/dev/null',
  "done",
  "exit 0",
].join("\n");

/** How long a guard lets an engine end by itself, in tenths of a second: enough to unlink shared memory, no more. */
export const GUARD_TERM_TENTHS = 20;
