import { isDeepStrictEqual } from "node:util";
import { createClient } from "@connectrpc/connect";
import type { Clock } from "../core/clock.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { Agent } from "./gen/cgn/agent/v1/agent_pb.ts";
import type { WireHealth } from "./kv-client.ts";
import type { WireTls } from "./tls.ts";
import { type WireAddress, wireName, wireTransport } from "./transport.ts";
import { workerFromMessage } from "./worker-message.ts";

/** A directory that another process keeps. */
export interface RemoteDirectory extends WorkerDirectory {
  health(): WireHealth;
  close(): void;
}

export interface AgentClientOptions {
  readonly address: WireAddress;
  readonly clock: Clock;
  /** Certificates for `https:` addresses. */
  readonly tls?: WireTls;
  /** First pause before connecting again; doubled up to 16 times itself. Default 250 ms. */
  readonly retryMs?: number;
  /** An agent out of reach for so long: its workers count as down. Default 15 s (it may only be restarting). */
  readonly staleMs?: number;
}

/** An agent says its list so often, though nothing changed. */
const REPEAT_MS = 1_000;
/** One that says nothing for so long, also at first, cannot be reached: its host may have lost its power. */
const SILENT_MS = 3_000;

/**
 * Follow an agent's workers by `cgn.agent.v1.Agent.Watch`, reconnecting for ever. The list is empty until the first answer;
 * while the agent cannot be reached the last list stays, and after `staleMs` its workers are `down`. It speaks each second, so a host
 * that lost its power is noticed too.
 */
export function followAgent(options: AgentClientOptions): RemoteDirectory {
  const { transport, agent } = wireTransport(options.address, options.tls);
  const client = createClient(Agent, transport);
  const name = wireName(options.address);
  const retryMs = options.retryMs ?? 250;
  const listeners = new Set<(workers: readonly WorkerInfo[]) => void>();
  const ended = new AbortController();
  let workers: readonly WorkerInfo[] = [];
  let health: WireHealth = { ok: false, reason: `agent at ${name}: not reached yet` };
  let cancelTimer = () => {};
  let cancelStale = () => {};
  const publish = (next: readonly WorkerInfo[]) => {
    if (isDeepStrictEqual(next, workers)) return;
    workers = next;
    for (const listener of listeners) listener(workers);
  };
  const lost = (error: unknown) => {
    if (ended.signal.aborted) return;
    const reason = `agent at ${name}: ${error instanceof Error ? error.message : "the connection ended"}`;
    if (health.ok) {
      cancelStale = options.clock.after(options.staleMs ?? 15_000, () => {
        publish(
          workers.map((w) => ({
            ...w,
            state: "down",
            onDemand: false,
            returns: false,
            reason: `${reason} (last state: ${w.state})`,
          })),
        );
      });
    }
    health = { ok: false, reason };
  };
  const watch = async (attempt: number): Promise<void> => {
    let next = attempt + 1;
    const stop = new AbortController();
    const end = () => stop.abort();
    ended.signal.addEventListener("abort", end);
    let cancelSilent = () => {};
    const hear = () => {
      cancelSilent();
      cancelSilent = options.clock.after(SILENT_MS, () => stop.abort(new Error("no word from it")));
    };
    try {
      hear();
      for await (const reply of client.watch({ repeatMs: REPEAT_MS }, { signal: stop.signal })) {
        hear();
        cancelStale();
        health = { ok: true, reason: "" };
        next = 0;
        publish(reply.workers.map(workerFromMessage));
      }
      lost(undefined);
    } catch (error) {
      lost(stop.signal.aborted ? stop.signal.reason : error);
    } finally {
      cancelSilent();
      ended.signal.removeEventListener("abort", end);
    }
    if (ended.signal.aborted) return;
    cancelTimer = options.clock.after(retryMs * 2 ** Math.min(Math.max(next - 1, 0), 4), () => void watch(next));
  };
  void watch(0);
  return {
    list: () => workers,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    health: () => health,
    close() {
      ended.abort();
      cancelTimer();
      cancelStale();
      agent.destroy();
    },
  };
}
