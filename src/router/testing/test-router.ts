import { createMemoryDirectory, type MemoryDirectory } from "../../cluster/memory-directory.ts";
import type { Clock } from "../../core/clock.ts";
import { nodeId, workerId } from "../../core/ids.ts";
import { SILENT_LOG } from "../../core/log.ts";
import type { ModelLoader } from "../../core/model-loader.ts";
import type { MatchQuery, Outcome, PrefixKnowledge, WorkerMatch } from "../../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../../core/worker.ts";
import type { UpstreamTimeouts } from "../../http/upstream.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { createRouter, type Router, type RouterOptions } from "../create-router.ts";
import type { PromptRenderer } from "../render.ts";

export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

export function testWorker(id: string, url: string, over: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id: workerId(id),
    node: nodeId(id),
    kind: "vllm",
    traits: {},
    url,
    models: ["m"],
    role: "both",
    kv: { type: "events", endpoint: "tcp://127.0.0.1:1", topic: "", dpRank: 0 },
    tokenizer: {},
    state: "ready",
    reason: "",
    epoch: 1,
    ...over,
  };
}

/** Knowledge that answers what the test says and keeps what it was told. */
export interface ScriptedKnowledge extends PrefixKnowledge {
  matches: readonly WorkerMatch[];
  readonly queries: MatchQuery[];
  readonly sentTo: string[];
  readonly unsentTo: string[];
  readonly outcomes: Outcome[];
}

export function scriptedKnowledge(): ScriptedKnowledge {
  const knowledge: ScriptedKnowledge = {
    matches: [],
    queries: [],
    sentTo: [],
    unsentTo: [],
    outcomes: [],
    match(query) {
      knowledge.queries.push(query);
      return knowledge.matches;
    },
    sent: (worker) => void knowledge.sentTo.push(worker),
    unsent: (worker) => void knowledge.unsentTo.push(worker),
    observe: (outcome) => void knowledge.outcomes.push(outcome),
  };
  return knowledge;
}

/** Renders a chat as its contents, one a line. */
const plainRenderer: PromptRenderer = {
  chat: ({ messages }) => {
    const texts = (messages as { content: string }[]).map((m) => m.content);
    return { bytes: Buffer.from(texts.join("\n")) };
  },
  completion: (prompt) => ({ bytes: Buffer.from(String(prompt)) }),
  messages: () => ({ reason: "not rendered in tests" }),
  responses: () => ({ reason: "not rendered in tests" }),
};

export interface TestRouter {
  readonly router: Router;
  readonly directory: MemoryDirectory;
  readonly knowledge: ScriptedKnowledge;
  readonly url: string;
  readonly admin: string;
}

export async function startTestRouter(
  workers: readonly WorkerInfo[],
  settings: Partial<RouterOptions["settings"]> = {},
  timeouts?: UpstreamTimeouts,
  loader?: ModelLoader,
  more: Partial<
    Pick<
      RouterOptions,
      | "access"
      | "engineKey"
      | "extras"
      | "maxPromptTokens"
      | "membership"
      | "metrics"
      | "protectMetrics"
      | "threads"
      | "tracer"
      | "log"
    >
  > = {},
): Promise<TestRouter> {
  const directory = createMemoryDirectory(workers);
  const knowledge = scriptedKnowledge();
  const router = createRouter({
    settings: {
      listenHttp: { host: "127.0.0.1", port: 0 },
      listenAdmin: { host: "127.0.0.1", port: 0 },
      nodeId: "test",
      policy: "ttft",
      maxBodyBytes: 64 * 1024,
      scoreWeights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
      admission: {},
      loadWait: { timeoutMs: 10_000, keepAliveMs: 5_000 },
      ...settings,
    },
    directory,
    knowledge,
    renderers: { get: () => plainRenderer },
    clock: realClock,
    log: SILENT_LOG,
    metrics: createMetrics({ processMetrics: false }),
    ...(timeouts === undefined ? {} : { timeouts }),
    ...(loader === undefined ? {} : { loader }),
    ...more,
  });
  await router.start();
  const at = ({ host, port }: { host: string; port: number }) => `http://${host}:${port}`;
  return { router, directory, knowledge, url: at(router.address), admin: at(router.adminAddress) };
}
