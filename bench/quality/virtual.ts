import type { Clock } from "../../src/core/clock.ts";
import { createPolicy } from "../../src/routing/policies.ts";
import { Timers } from "../../src/sim/model/timers.ts";
import { EventKnowledge } from "../../src/sim/replay/known-blocks.ts";
import { RemoteLoads } from "../../src/sim/replay/remote-loads.ts";
import { VirtualRouter } from "../../src/sim/replay/virtual-router.ts";
import { type EngineSize, QualityEngine } from "./engine.ts";
import { type QualityFigures, qualityFigures } from "./figures.ts";
import { Oracle } from "./oracle.ts";
import { blockNames, type QualityRequest, tokenize } from "./trace.ts";

/** A fleet in virtual time. */
export interface VirtualFleet {
  readonly engines: number;
  readonly size: EngineSize;
  /** A policy of ours, `oracle`. */
  readonly policy: string;
  readonly routers: number;
  /** How late a router hears of the others' bookings; undefined: never. */
  readonly shareMs: number | undefined;
  /** From a block's storing to the router's knowing. */
  readonly knowledgeMs: number;
}

/** Time that passes when all that was due is done. */
class VirtualClock implements Clock {
  readonly #timers = new Timers<() => void>();
  #now = 0;

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): () => void {
    let due: (() => void) | undefined = fn;
    this.#timers.set(this.#now + ms, () => due?.());
    return () => {
      due = undefined;
    };
  }

  run(): void {
    for (let at = this.#timers.nextAt; at !== undefined; at = this.#timers.nextAt) {
      this.#now = Math.max(this.#now, at);
      this.#timers.take()();
    }
  }
}

/** The workload against the fleet, without a network: seconds instead of minutes, and the same figures each time. */
export function playVirtually(requests: readonly QualityRequest[], fleet: VirtualFleet): QualityFigures {
  const clock = new VirtualClock();
  const engines = Array.from({ length: fleet.engines }, () => new QualityEngine(fleet.size, clock));
  const oracle = new Oracle(engines);
  const keys = new Map<number, number>();
  const keyOf = (name: number): number => {
    let key = keys.get(name);
    if (key === undefined) keys.set(name, (key = keys.size));
    return key;
  };
  const routers = createRouters(fleet, clock, engines, keyOf);
  const among = engines.map((_, i) => i);
  for (const [i, request] of requests.entries()) {
    const blocks = blockNames(tokenize(request.text), fleet.size.blockTokens);
    clock.after(request.at, () => {
      const job = { ...request, blocks };
      if (fleet.policy === "oracle") {
        const engine = oracle.choose(job);
        engines[engine]!.submit({ ...job, onToken: () => {}, onEnd: () => {} });
        oracle.arrived(engine, request.id);
        return;
      }
      const router = routers[i % routers.length]!;
      const traced = { ...request, blocks: blocks.map(keyOf) };
      const choice = router.choose(clock.now(), traced, among)!;
      const sentAt = clock.now();
      let ttftMs = 0;
      engines[choice.engine]!.submit({
        ...job,
        onToken(count) {
          if (count > 1) return;
          ttftMs = clock.now() - sentAt;
          router.firstToken(clock.now(), choice);
        },
        onEnd() {
          const entry = engines[choice.engine]!.entries.at(-1)!;
          const cachedTokens = entry.cachedBlocks * fleet.size.blockTokens;
          router.finished(clock.now(), choice, traced, { ttftMs, cachedTokens });
        },
      });
    });
  }
  clock.run();
  return qualityFigures(engines.map(({ entries }) => entries));
}

function createRouters(
  fleet: VirtualFleet,
  clock: Clock,
  engines: readonly QualityEngine[],
  keyOf: (name: number) => number,
): VirtualRouter[] {
  const knowledge = Array.from({ length: fleet.routers }, () => new EventKnowledge(fleet.engines));
  const hear = (engine: number, stored: number[], removed: number[]): void => {
    for (const each of knowledge) each.hear({ at: clock.now() + fleet.knowledgeMs, engine, stored, removed });
  };
  for (const [i, engine] of engines.entries()) {
    engine.onStored = (job, places) =>
      hear(
        i,
        places.map((place) => keyOf(job.blocks[place]!)),
        [],
      );
    engine.onRemoved = (names) => hear(i, [], names.map(keyOf));
  }
  const { shareMs } = fleet;
  const remotes = knowledge.map(() => (shareMs === undefined ? undefined : new RemoteLoads(fleet.engines, shareMs)));
  const told = remotes.filter((remote) => remote !== undefined);
  for (const remote of told) remote.tell(told);
  return knowledge.map(
    (known, i) =>
      new VirtualRouter({
        engines: fleet.engines,
        policy: createPolicy(fleet.policy === "oracle" ? "ttft" : fleet.policy),
        knowledge: known,
        blockTokens: fleet.size.blockTokens,
        perEngine: undefined,
        remote: remotes[i],
      }),
  );
}
