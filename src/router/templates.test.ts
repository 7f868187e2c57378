import { describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { SILENT_LOG } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { ModelGroup } from "./fleet.ts";
import { type LoadedRenderer, loadRenderer } from "./model-renderer.ts";
import type { PromptRenderer } from "./render.ts";
import { createTemplates } from "./templates.ts";
import { llamaLike, vllmLike } from "./testing/probes.ts";
import { testWorker } from "./testing/test-router.ts";

/** A clock that is moved by hand. */
function handClock(): Clock & { pass(ms: number): void } {
  let nowMs = 0;
  let timers: { at: number; fn: () => void }[] = [];
  return {
    now: () => nowMs,
    wall: () => nowMs,
    after(ms, fn) {
      const timer = { at: nowMs + ms, fn };
      timers.push(timer);
      return () => {
        timers = timers.filter((each) => each !== timer);
      };
    },
    pass(ms) {
      nowMs += ms;
      const due = timers.filter((timer) => timer.at <= nowMs);
      timers = timers.filter((timer) => timer.at > nowMs);
      for (const timer of due) timer.fn();
    },
  };
}

const group = (worker: WorkerInfo): ModelGroup => ({ model: "m", workers: [worker], ready: [worker] });
const worker = testWorker("a", "http://127.0.0.1:1");
const none = () => ({ reason: "" });
const renderer: PromptRenderer = { chat: none, completion: none, messages: none, responses: none };
const good: LoadedRenderer = { renderer, problem: undefined };

describe("createTemplates()", () => {
  it("get() loads once, and answers at once afterwards", async () => {
    let loads = 0;
    const load = async () => {
      loads++;
      return good;
    };
    const templates = createTemplates({ load, clock: handClock(), log: SILENT_LOG });
    expect(await templates.get(group(worker))).toBe(renderer);
    expect(templates.get(group(worker))).toBe(renderer);
    expect(loads).toBe(1);
  });

  it("get() gives up after a second, and the request goes by load", async () => {
    const clock = handClock();
    const templates = createTemplates({ load: () => new Promise(() => {}), clock, log: SILENT_LOG });
    const waiting = templates.get(group(worker));
    clock.pass(1_000);
    expect(await waiting).toBeUndefined();
  });

  it("get() tells what failed, and tries again after half a minute", async () => {
    const clock = handClock();
    let fails = true;
    const load = async () => {
      if (fails) throw new Error("no such folder");
      return good;
    };
    const templates = createTemplates({ load, clock, log: SILENT_LOG });
    expect(await templates.get(group(worker))).toBeUndefined();
    expect(templates.problems()).toEqual({ m: "no such folder" });
    fails = false;
    expect(templates.get(group(worker))).toBeUndefined();
    clock.pass(30_001);
    templates.get(group(worker));
    await Promise.resolve().then(() => {});
    expect(templates.get(group(worker))).toBe(renderer);
    expect(templates.problems()).toEqual({});
  });

  it("get() loads anew after a restart, and serves the old one meanwhile", async () => {
    const other = { ...renderer };
    const answers = [good, { renderer: other, problem: undefined }];
    const templates = createTemplates({ load: async () => answers.shift()!, clock: handClock(), log: SILENT_LOG });
    await templates.get(group(worker));
    const again = { ...worker, epoch: 2 };
    expect(templates.get(group(again))).toBe(renderer);
    await Promise.resolve().then(() => {});
    expect(templates.get(group(again))).toBe(other);
  });
});

describe("loadRenderer()", () => {
  const deps = { env: { HF_HOME: "/nonexistent" }, now: () => new Date(0) };
  const chat = { messages: [{ role: "user", content: "hi" }] };
  const text = ({ renderer: made }: LoadedRenderer): string => {
    const prompt = made?.chat(chat);
    return prompt !== undefined && "bytes" in prompt ? Buffer.from(prompt.bytes).toString() : "";
  };

  // Chats with several text parts were rendered as vLLM does for every engine.
  it("joins text parts as the worker's engine does", async () => {
    const deps = { env: {}, engineOf: () => vllmLike, ask: async () => undefined, now: () => new Date(0) };
    const chat = { messages: [{ role: "user", content: [{ text: "one" }, { text: "two" }] }] };
    const rendered = async (traits: WorkerInfo["traits"]) => {
      const { renderer } = await loadRenderer({ ...worker, tokenizer: { bytes: true }, traits }, deps);
      const prompt = (await renderer?.chat(chat)) ?? { reason: "none" };
      return "bytes" in prompt ? Buffer.from(prompt.bytes).toString() : prompt.reason;
    };
    expect(await rendered({})).toContain("one\ntwo");
    expect(await rendered({ textPartsJoin: " " })).toContain("one two");
    expect(await rendered({ textPartsJoin: "" })).toContain("onetwo");
  });

  it("takes the template that the engine tells", async () => {
    const ask = async () => "{% for m in messages %}[{{ m.content }}]{% endfor %}";
    const loaded = await loadRenderer(worker, { ...deps, engineOf: () => llamaLike, ask });
    expect([text(loaded), loaded.problem]).toEqual(["[hi]", undefined]);
  });

  it("knows the simulator's bytes", async () => {
    const sim = { ...worker, tokenizer: { bytes: true } };
    const loaded = await loadRenderer(sim, { ...deps, engineOf: () => vllmLike, ask: async () => undefined });
    expect(text(loaded)).toContain("user\nhi");
    expect(loaded.renderer?.completion([104, 105])).toEqual({ bytes: new Uint8Array([104, 105]) });
  });

  it("says that nothing is known, with the remedy", async () => {
    const loaded = await loadRenderer(worker, { ...deps, engineOf: () => vllmLike, ask: async () => undefined });
    expect(loaded.renderer).toBeUndefined();
    expect(loaded.problem).toContain('routing by load only. Set [models."m"].tokenizer');
  });
});
