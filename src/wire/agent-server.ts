import type { ConnectRouter } from "@connectrpc/connect";
import { workerId } from "../core/ids.ts";
import type { Demand, ModelLoader } from "../core/model-loader.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { Agent, type DemandRequest } from "./gen/cgn/agent/v1/agent_pb.ts";
import { watchValues } from "./watch-values.ts";
import { requireProved, WIRE_PEER } from "./wire-peer.ts";
import { workerToMessage } from "./worker-message.ts";

/**
 * The routes of `cgn.agent.v1.Agent`: what this agent's directory holds.
 * @param loader whom demand is told; without one it is heard and nothing is loaded
 * @param started nothing is told of workers before it settles: an empty list would make followers forget those that an agent
 * before this one left running
 */
export function agentRoutes(
  directory: WorkerDirectory,
  loader?: ModelLoader,
  started: Promise<void> = Promise.resolve(),
): (router: ConnectRouter) => void {
  const workers = () => directory.list().map(workerToMessage);
  return (router) => {
    router.service(Agent, {
      async *watch({ repeatMs }, context) {
        await started;
        const heard = (listener: () => void) => repeating(listener, repeatMs, directory.subscribe(listener));
        for await (const _ of watchValues(heard, context.signal)) {
          yield { workers: workers() };
        }
      },
      list: async () => {
        await started;
        return { workers: workers() };
      },
      demand(request) {
        loader?.demand(request.router, demandOf(request));
        return {};
      },
      async load({ name }, { values }) {
        requireProved(values.get(WIRE_PEER), `load "${name}"`);
        return { workers: [...((await loader?.load(name)) ?? [])] };
      },
      async unload({ name }, { values }) {
        requireProved(values.get(WIRE_PEER), `unload "${name}"`);
        return { workers: [...((await loader?.unload(name)) ?? [])] };
      },
    });
  };
}

/** More often would be work without news. */
const REPEAT_MIN_MS = 100;

function repeating(listener: () => void, ms: number, leave: () => void): () => void {
  if (ms === 0) return leave;
  const timer = setInterval(listener, Math.max(REPEAT_MIN_MS, ms));
  return () => {
    clearInterval(timer);
    leave();
  };
}

function demandOf({ models, workers }: DemandRequest): Demand {
  return {
    models: models.map(({ model, waiting, oldestMs }) => ({ model, waiting, oldestMs })),
    workers: workers.map(({ worker, inFlight, uses, chosen }) => ({
      worker: workerId(worker),
      inFlight,
      uses,
      chosen,
    })),
  };
}
