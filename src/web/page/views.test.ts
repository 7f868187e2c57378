import { render } from "preact-render-to-string";
import { describe, expect, it } from "vitest";
import { describe as describeChart } from "./charts-view.ts";
import type { Dashboard, Decision, RequestRow, Worker } from "./data.ts";
import { shell } from "./shell-view.ts";
import { type Actions, FIRST_STATE, placeOf, requestHref, type State } from "./state.ts";
import { troublesOf } from "./troubles.ts";

const NO_ACTIONS: Actions = {
  ask() {},
  answer() {},
  act() {},
  toggleLogs() {},
  setKey() {},
  enterKey() {},
  withoutKey() {},
  setTheme() {},
  setMinutes() {},
  chat() {},
  send() {},
  stopChat() {},
  clearChat() {},
};

const worker = (over: Partial<Worker> = {}): Worker => ({
  id: "n/m",
  node: "n",
  kind: "vllm",
  url: "http://127.0.0.1:1",
  models: ["m"],
  role: "both",
  state: "ready",
  reason: "",
  takesRequests: true,
  kv: "events",
  load: { inFlight: 2, queuedTokens: 512, streams: 1 },
  cache: { requests: 4, promptTokens: 1_000, predictedTokens: 500, reportedTokens: 510 },
  ...over,
});

const request = (over: Partial<RequestRow> = {}): RequestRow => ({
  id: "r1",
  at: 0,
  model: "m",
  path: "/v1/chat/completions",
  stream: true,
  tries: 1,
  worker: "n/m",
  reason: "least predicted TTFT",
  promptTokens: 100,
  predicted: 64,
  outcome: { result: "ok", status: 200, totalMs: 900, ttftMs: 80, promptTokens: 100, cachedTokens: 64 },
  ...over,
});

function data(over: Partial<Dashboard> = {}, status: Partial<Dashboard["status"]> = {}): Dashboard {
  return {
    now: 5_000,
    notReady: {},
    engines: {},
    gauges: {},
    requests: [request()],
    can: { load: true, logs: true, posts: ["/v1/cgn/reload"] },
    status: {
      node: "n",
      draining: false,
      policy: "ttft",
      models: [{ model: "m", workers: 1, ready: 1, running: 2, queued: 0, waitingForLoad: 0 }],
      workers: [worker()],
      ...status,
    },
    ...over,
  };
}

const html = (state: Partial<State>): string => render(shell({ ...FIRST_STATE, ...state }, NO_ACTIONS) as never);
const text = (state: Partial<State>): string =>
  html(state)
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");

describe("shell()", () => {
  it("draws each place without data, and says that it waits", () => {
    for (const name of ["overview", "requests", "charts", "prefixes", "knowledge", "chat"] as const)
      expect(text({ place: { name } }), name).toContain("Asking the router");
  });

  it("asks for a key where one is needed, and shows nothing else", () => {
    const shown = text({ wantsKey: { why: "Cannot serve it: no key", of: "page" } });
    expect(shown).toContain("A key is needed");
    expect(shown).not.toContain("Asking the router");
  });

  it("escapes what comes from elsewhere", () => {
    const evil = "<img src=x onerror=alert(1)>";
    const bad = data(
      { requests: [request({ reason: evil, model: evil })] },
      { workers: [worker({ state: "down", reason: evil })] },
    );
    for (const name of ["overview", "requests", "knowledge"] as const)
      expect(html({ place: { name }, data: bad }), name).not.toContain("<img");
  });

  it("shows of an engine what can be done with it now", () => {
    const buttons = (w: Partial<Worker>): string[] => {
      const shown = html({ data: data({}, { workers: [worker(w)] }) });
      return [...shown.matchAll(/id="([A-Z]\w+)-n\/m"/g)].map(([, name]) => name!);
    };
    expect(buttons({})).toEqual(["Drain", "Cordon", "Log"]);
    expect(buttons({ takesRequests: false, whyNot: "cordoned" })).toEqual(["Uncordon", "Log"]);
    expect(buttons({ state: "unloaded", takesRequests: false, onDemand: true })).toEqual(["Load", "Log"]);
    expect(buttons({ onDemand: true })).toEqual(["Drain", "Cordon", "Unload", "Log"]);
    expect(buttons({ state: "starting", takesRequests: false })).toEqual(["Log"]);
  });

  it("shows how long an engine loads, and what it said last", () => {
    const progress = { elapsedMs: 48_000, deadlineMs: 600_000, lastLine: "shard 4 of 8" };
    const engines = { "n/m": { kvOffload: "lmcache", spawned: true, starts: 1, progress } };
    const shown = text({ data: data({ engines }, { workers: [worker({ state: "starting", takesRequests: false })] }) });
    for (const part of ["offload lmcache", "Loading for 48 s", "given up after 10 min", "shard 4 of 8"])
      expect(shown).toContain(part);
  });

  it("has no lane for most idle engines of a large fleet", () => {
    const workers = Array.from({ length: 40 }, (_, n) => worker({ id: `gpu-${n}/m` }));
    const shown = html({ data: data({ requests: [request({ worker: "gpu-39/m" })] }, { workers }) });
    const lanes = [...shown.matchAll(/class="lane" title="gpu-(\d+)\/m"/g)].map(([, n]) => n);
    expect(lanes).toEqual(["0", "1", "2", "3", "4", "5", "39"]);
    expect(shown).toContain("33 more engines without one of the last requests");
  });

  it("says predicted and real of an engine", () => {
    const shown = text({ data: data() });
    expect(shown).toContain("51 %");
    expect(shown).toContain("98 %: 500 predicted, 510 reported");
  });

  it("shows a decision term by term, the best candidate first", () => {
    const terms = { baseMs: 10, waitMs: 20, fetchMs: 0, prefillMs: 300, interferenceMs: 1 };
    const candidate = (id: string, score: number) => ({
      worker: id,
      score,
      ttftMs: score,
      terms,
      othersMs: 5,
      cachedTokens: 64,
      uncachedTokens: 36,
      inFlight: 1,
    });
    const decision: Decision = {
      ...request(),
      policy: "ttft",
      attempts: [
        {
          worker: "n/a",
          node: "n",
          reason: "least",
          predictedCachedTokens: 64,
          candidates: [candidate("n/b", 400), candidate("n/a", 336)],
          heldBack: { "n/c": "its breaker is open" },
        },
      ],
      outcome: {
        result: "ok",
        totalMs: 900,
        promptTokens: 100,
        cachedTokens: 64,
        prediction: { result: "in_flight", reason: "an event came 3 ms later" },
      },
    };
    const shown = text({ place: { name: "requests", id: "r1" }, data: data(), decision });
    for (const part of [
      "Chosen: n/a",
      "Because: least",
      "300 ms",
      "n/c was passed over: its breaker is open",
      "in flight: an event came 3 ms later",
      "64 tokens (64 %)",
    ])
      expect(shown).toContain(part);
    expect(shown.indexOf("n/a ✓")).toBeLessThan(shown.indexOf("n/b"));
  });

  it("shows of a turn where it was answered", () => {
    const chat = {
      ...FIRST_STATE.chat,
      turns: [
        {
          role: "assistant" as const,
          text: "Paris",
          route: { id: "r 1", node: "gpu-1", predicted: 64, cached: 60, prompt: 120, ttftMs: 80 },
        },
      ],
    };
    const shown = text({ place: { name: "chat" }, data: data(), chat });
    expect(shown).toContain(
      "answered by gpu-1 · prompt 120 tokens · predicted cached 64 (53 %) · really cached 60 (50 %) · first token after 80 ms",
    );
    expect(html({ place: { name: "chat" }, data: data(), chat })).toContain('href="#/requests/r%201"');
  });
});

describe("troublesOf()", () => {
  it("is empty where nothing is wrong", () => expect(troublesOf(data())).toEqual([]));

  it("has what hurts most first, with its remedy", () => {
    const source = {
      worker: "n/m",
      model: "m",
      type: "events" as const,
      state: "live",
      detail: "",
      events: 1,
      blocks: 1,
      gaps: 0,
      restarts: 0,
      parity: "equal",
      alarms: [{ code: "EVENTS_LOST", message: "events were lost", forMs: 60_000 }],
    };
    const models = [
      { model: "m", workers: 1, ready: 0, running: 0, queued: 0, waitingForLoad: 0, problem: "no template" },
    ];
    const found = troublesOf(
      data(
        {},
        { models, sources: [source], workers: [worker({ state: "down", reason: "gone", takesRequests: false })] },
      ),
    );
    expect(found.map(({ level, who }) => [level, who])).toEqual([
      ["bad", "m"],
      ["bad", "n/m"],
      ["warn", "m"],
      ["warn", "n/m"],
    ]);
    expect(found.at(-1)?.what).toBe("EVENTS_LOST for 60 s: events were lost");
    expect(found[1]?.remedy).toContain("cgn logs n/m");
  });

  it("does not say that a model is gone that is being loaded, or is loaded when it is wanted", () => {
    const models = [{ model: "m", workers: 1, ready: 0, running: 0, queued: 0, waitingForLoad: 0 }];
    for (const over of [{ state: "starting" }, { state: "unloaded", onDemand: true }])
      expect(troublesOf(data({}, { models, workers: [worker({ takesRequests: false, ...over })] }))).toEqual([]);
  });
});

describe("placeOf()", () => {
  it("reads what requestHref() wrote", () => {
    for (const id of ["a", "a b/c?d#e", "ä%20"]) expect(placeOf(requestHref(id))).toEqual({ name: "requests", id });
  });

  it("takes what it does not know for the overview", () => {
    for (const hash of ["", "#", "#/nowhere", "#/requests%"]) expect(placeOf(hash)).toEqual({ name: "overview" });
    expect(placeOf("#/requests/%")).toEqual({ name: "requests" });
  });
});

describe("describe()", () => {
  it("says in words what a chart shows", () => {
    const history = { fromMs: 0, stepMs: 1, columns: { a: [1, null, 3], b: [null, null, null] } };
    const lines = [
      { name: "p50", column: "a" },
      { name: "p90", column: "b" },
    ];
    expect(describeChart("TTFT", lines, history, (v) => `${v} ms`)).toBe(
      "TTFT. p50: now 3 ms, least 1 ms, most 3 ms; p90: no figures",
    );
  });
});
