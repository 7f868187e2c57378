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
  /** Resolves with the agent's first list, or when the first try has failed. */
  readonly first: Promise<void>;
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
  /** The same where its host itself answers nothing, not even a refusal: it is cut off, or has no power. Default `staleMs`. */
  readonly hostLostMs?: number;
}

/** An agent says its list so often, though nothing changed. */
const REPEAT_MS = 1_000;
/** One that says nothing for so long, also at first, cannot be reached: its host may have lost its power. */
const SILENT_MS = 3_000;
/** Errors of a connection that nobody at the other end sent; the last two are of routes that drop or prohibit. */
const HOST_LOST = new Set(["EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "ETIMEDOUT", "EINVAL", "EACCES"]);

/**
 * Follow an agent's workers by `cgn.agent.v1.Agent.Watch`, reconnecting for ever. The list is empty until the first answer;
 * while the agent cannot be reached the last list stays, and after `staleMs` its workers are `down`. It speaks each second, so a host
 * that lost its power is noticed too: that takes `hostLostMs`, for nobody restarts there.
 */
export function followAgent(options: AgentClientOptions): RemoteDirectory {
  const { transport, agent } = wireTransport(options.address, options.tls);
  const client = createClient(Agent, transport);
  const name = wireName(options.address);
  const retryMs = options.retryMs ?? 250;
  const listeners = new Set<(workers: readonly WorkerInfo[]) => void>();
  const ended = new AbortController();
  const first = Promise.withResolvers<void>();
  let workers: readonly WorkerInfo[] = [];
  let health: WireHealth = { ok: false, reason: `agent at ${name}: not reached yet` };
  let cancelTimer = () => {};
  let cancelStale = () => {};
  /** When the agent was heard, and when its host gave any sign. */
  let heardAt = options.clock.now();
  let signAt = heardAt;
  const staleMs = options.staleMs ?? 15_000;
  const hostLostMs = Math.min(staleMs, options.hostLostMs ?? staleMs);
  const publish = (next: readonly WorkerInfo[]) => {
    if (isDeepStrictEqual(next, workers)) return;
    workers = next;
    for (const listener of listeners) listener(workers);
  };
  const giveUp = () => {
    const { reason } = health;
    const down = { state: "down", onDemand: false, returns: false } as const;
    publish(
      workers.map(({ unheard: _, ...w }) =>
        w.state === "down" ? w : { ...w, ...down, reason: `${reason} (last state: ${w.state})` },
      ),
    );
  };
  const lost = (error: unknown, isSilent: boolean) => {
    first.resolve();
    if (ended.signal.aborted) return;
    health = {
      ok: false,
      reason: `agent at ${name}: ${error instanceof Error ? error.message : "the connection ended"}`,
    };
    const now = options.clock.now();
    if (!isSilent) signAt = now;
    const { reason } = health;
    publish(workers.map(({ unheard: _, ...w }) => (isSilent && w.state !== "down" ? { ...w, unheard: reason } : w)));
    const until = isSilent ? Math.min(heardAt + staleMs, signAt + hostLostMs) : heardAt + staleMs;
    cancelStale();
    cancelStale = options.clock.after(Math.max(0, until - now), giveUp);
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
        heardAt = options.clock.now();
        signAt = heardAt;
        health = { ok: true, reason: "" };
        next = 0;
        publish(reply.workers.map(workerFromMessage));
        first.resolve();
      }
      lost(undefined, false);
    } catch (error) {
      const isSilent = stop.signal.aborted || HOST_LOST.has(codeOf(error) ?? "");
      lost(stop.signal.aborted ? stop.signal.reason : error, isSilent);
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
    first: first.promise,
    close() {
      first.resolve();
      ended.abort();
      cancelTimer();
      cancelStale();
      agent.destroy();
    },
  };
}

/** What the system said, behind the wire's own words. */
function codeOf(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (typeof code === "string") return code;
  }
  return undefined;
}
