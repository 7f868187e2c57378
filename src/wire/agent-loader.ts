import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import { type WorkerId, workerId } from "../core/ids.ts";
import type { Demand, ModelLoader } from "../core/model-loader.ts";
import { Agent } from "./gen/cgn/agent/v1/agent_pb.ts";
import type { WireTls } from "./tls.ts";
import { type WireAddress, wireName, wireTransport } from "./transport.ts";

/** The loader of an agent in another process. */
export interface RemoteLoader extends ModelLoader {
  close(): void;
}

const CALL_MS = 5_000;

/**
 * Tell an agent elsewhere what this router's clients wait for. One call at a time, and always the newest: what was said while a
 * call was under way is sent after it. A call that fails is not repeated; the next report comes within a second.
 */
export function remoteLoader(address: WireAddress, clock: Clock, tls?: WireTls): RemoteLoader {
  const { transport, agent } = wireTransport(address, tls);
  const client: Client<typeof Agent> = createClient(Agent, transport);
  let next: { readonly router: string; readonly demand: Demand; readonly atMs: number } | undefined;
  let isBusy = false;
  const send = async (): Promise<void> => {
    isBusy = true;
    for (let now = next; now !== undefined; now = next) {
      next = undefined;
      const lateMs = clock.now() - now.atMs;
      const models = now.demand.models.map((each) => ({ ...each, oldestMs: each.oldestMs + lateMs }));
      const workers = now.demand.workers.map((each) => ({ ...each }));
      await client.demand({ router: now.router, models, workers }, { timeoutMs: CALL_MS }).catch(() => {});
    }
    isBusy = false;
  };
  const ask = async (verb: "load" | "unload", name: string): Promise<readonly WorkerId[]> => {
    const call = verb === "load" ? client.load : client.unload;
    const reply = await call({ name }, { timeoutMs: CALL_MS }).catch((cause: unknown) => {
      const said = cause instanceof Error ? cause.message : String(cause);
      if (cause instanceof ConnectError && cause.code === Code.PermissionDenied) {
        throw new CgnError("FORBIDDEN", `${cause.rawMessage} (agent at ${wireName(address)})`, { name }, { cause });
      }
      const message = `Cannot ${verb} "${name}": the agent at ${wireName(address)} does not answer (${said}). Start it`;
      throw new CgnError("DEPENDENCY_UNREACHABLE", message, { name }, { cause });
    });
    return reply.workers.map(workerId);
  };
  return {
    demand(router, demand) {
      next = { router, demand, atMs: clock.now() };
      if (!isBusy) void send();
    },
    load: (name) => ask("load", name),
    unload: (name) => ask("unload", name),
    close: () => agent.destroy(),
  };
}

/** Several agents as one loader: each takes of the demand what is its own. */
export function allLoaders(loaders: readonly ModelLoader[]): ModelLoader {
  const askAll = async (ask: (loader: ModelLoader) => Promise<readonly WorkerId[]>): Promise<readonly WorkerId[]> => {
    const replies = await Promise.allSettled(loaders.map(ask));
    const found = replies.flatMap((reply) => (reply.status === "fulfilled" ? reply.value : []));
    const failed = replies.find((reply) => reply.status === "rejected");
    // An agent out of reach matters only when no other one knows the name.
    if (found.length === 0 && failed !== undefined) throw failed.reason;
    return found;
  };
  return {
    demand(router, demand) {
      for (const loader of loaders) loader.demand(router, demand);
    },
    load: (name) => askAll((loader) => loader.load(name)),
    unload: (name) => askAll((loader) => loader.unload(name)),
  };
}
