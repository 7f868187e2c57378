import type { ConnectRouter } from "@connectrpc/connect";
import type { WorkerDirectory } from "../core/worker.ts";
import { Agent } from "./gen/cgn/agent/v1/agent_pb.ts";
import { watchValues } from "./watch-values.ts";
import { workerToMessage } from "./worker-message.ts";

/** The routes of `cgn.agent.v1.Agent`: what this agent's directory holds. */
export function agentRoutes(directory: WorkerDirectory): (router: ConnectRouter) => void {
  const workers = () => directory.list().map(workerToMessage);
  return (router) => {
    router.service(Agent, {
      async *watch(_request, context) {
        for await (const _ of watchValues((listener) => directory.subscribe(listener), context.signal)) {
          yield { workers: workers() };
        }
      },
      list: () => ({ workers: workers() }),
    });
  };
}
