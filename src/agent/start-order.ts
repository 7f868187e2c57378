import type { AgentEngine } from "./managed-engine.ts";

/** The engines that must be ready, or have failed, before another is started (`start_after`). */
function beforeIt({ settings }: AgentEngine, engines: readonly AgentEngine[]): AgentEngine[] {
  return engines.filter((other) => settings.startAfter.includes(other.settings.url));
}

/** An engine that waits for others, and for which. */
export interface Begun {
  readonly engine: AgentEngine;
  readonly waitsFor: readonly AgentEngine[];
  /** Settles once it was started and is ready or has failed. */
  readonly settled: Promise<void>;
}

/**
 * Start engines, each after those that it names; the others at once. Those among `starting` only: what else an engine names runs
 * already, or is loaded when it is wanted.
 * @param isWanted asked before a start that had to wait
 */
export function startInOrder(starting: readonly AgentEngine[], isWanted: (engine: AgentEngine) => boolean): Begun[] {
  const begun = new Map<AgentEngine, Begun>();
  const begin = (engine: AgentEngine): Begun => {
    const known = begun.get(engine);
    if (known !== undefined) return known;
    const waitsFor = beforeIt(engine, starting);
    const before = waitsFor.map(begin);
    const start = (): Promise<void> => {
      if (isWanted(engine)) engine.keeper.start();
      return engine.keeper.settled();
    };
    const settled = before.length === 0 ? start() : Promise.all(before.map((each) => each.settled)).then(start);
    const made = { engine, waitsFor, settled };
    begun.set(engine, made);
    return made;
  };
  return starting.map(begin);
}

/** End engines, each after those that were started after it. */
export async function stopInOrder(
  stopping: readonly AgentEngine[],
  stop: (engine: AgentEngine) => Promise<void>,
): Promise<void> {
  const ended = new Map<AgentEngine, Promise<void>>();
  const end = (engine: AgentEngine): Promise<void> => {
    const known = ended.get(engine);
    if (known !== undefined) return known;
    const after = stopping.filter((other) => beforeIt(other, stopping).includes(engine)).map(end);
    const promise = after.length === 0 ? stop(engine) : Promise.all(after).then(() => stop(engine));
    ended.set(engine, promise);
    return promise;
  };
  await Promise.all(stopping.map(end));
}
