import type { WorkerId } from "../core/ids.ts";
import type { Demand, ModelLoader } from "../core/model-loader.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { AgentOptions } from "./agent.ts";
import type { EngineStatus } from "./engine-status.ts";
import type { AgentEngine } from "./managed-engine.ts";
import { Swap } from "./swap.ts";
import { createSleeper } from "./swap-sleep.ts";

/** More routers than this are not remembered for a swap that is made anew. */
const MAX_ROUTERS = 64;

/** The swap of an agent, which is made anew when the engines that take turns change. */
export class SwapBox implements ModelLoader {
  readonly #options: AgentOptions;
  readonly #publish: (status: EngineStatus) => void;
  readonly #demands = new Map<string, Demand>();
  #swap: Swap | undefined;

  constructor(options: AgentOptions, publish: (status: EngineStatus) => void) {
    this.#options = options;
    this.#publish = publish;
  }

  get isEmpty(): boolean {
    return this.#swap === undefined;
  }

  /** Take over these engines; with `start` those that are to be loaded at the start are. */
  open(engines: readonly AgentEngine[], settings: AgentOptions["settings"]["swap"]): void {
    const { clock, log, metrics, inflight } = this.#options;
    const members = engines.flatMap(({ settings: each, engine, keeper }) => {
      if (each.onDemand === undefined) return [];
      const calls = engine.sleeps?.(each.options);
      const sleeper = calls === undefined ? {} : { sleeper: createSleeper(each.url, calls, keeper.apiKey) };
      return [{ keeper, settings: each, ...sleeper }];
    });
    this.#swap =
      members.length === 0 || settings === undefined
        ? undefined
        : new Swap({
            members,
            settings,
            clock,
            log,
            isLocal: inflight !== undefined,
            publish: this.#publish,
            onLoad: (id, how) => metrics?.counter("cgn_agent_engine_loads_total", id, how).inc(),
          });
  }

  start(): void {
    this.#swap?.start();
  }

  /** Those that run when the swap was made anew count as loaded, and what routers want is told again. */
  async resume(engines: readonly AgentEngine[]): Promise<void> {
    const swap = this.#swap;
    if (swap === undefined) return;
    for (const { id, keeper } of engines) {
      if (!swap.owns(id) || keeper.status().stopped || keeper.status().failed) continue;
      await swap.load(id);
      swap.noticed(keeper.status());
    }
    for (const [router, demand] of this.#demands) swap.demand(router, demand);
  }

  owns(id: WorkerId): boolean {
    return this.#swap?.owns(id) === true;
  }

  announce(status: EngineStatus): WorkerInfo {
    return this.owns(status.worker.id) ? this.#swap!.announce(status) : status.worker;
  }

  noticed(status: EngineStatus): void {
    this.#swap?.noticed(status);
  }

  close(): void {
    this.#swap?.close();
  }

  demand(router: string, demand: Demand): void {
    this.#demands.delete(router);
    this.#demands.set(router, demand);
    const [oldest] = this.#demands.keys();
    if (this.#demands.size > MAX_ROUTERS && oldest !== undefined) this.#demands.delete(oldest);
    this.#swap?.demand(router, demand);
  }

  async load(name: string): Promise<readonly WorkerId[]> {
    return (await this.#swap?.load(name)) ?? [];
  }

  async unload(name: string): Promise<readonly WorkerId[]> {
    return (await this.#swap?.unload(name)) ?? [];
  }
}
