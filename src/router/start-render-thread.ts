import { Worker } from "node:worker_threads";
import type { Json } from "../core/chat-request.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { RenderedPrompt } from "../prompt/chat-template.ts";
import type { ChatApi, ChatPromptSeed } from "./chat-prompts.ts";

export type ToRenderThread =
  | { readonly type: "model"; readonly model: number; readonly seed: ChatPromptSeed }
  | { readonly type: "forget"; readonly model: number }
  | {
      readonly type: "render";
      readonly id: number;
      readonly model: number;
      readonly api: ChatApi;
      readonly body: Json;
    };

export type FromRenderThread =
  | { readonly id: number; readonly prompt: RenderedPrompt }
  | { readonly id: number; readonly thrown: string };

/** Runs templates elsewhere. */
export interface RenderThread {
  /** @returns what renders bodies of a model with this seed; its promises never reject */
  model(seed: ChatPromptSeed): ThreadedModel;
  close(): void;
}

export interface ThreadedModel {
  render(api: ChatApi, body: Json): Promise<RenderedPrompt>;
}

/** A prompt that takes longer is not worth waiting for: the request is routed by load. */
const DEADLINE_MS = 200;
/** So many may wait; others are routed by load. */
const MAX_WAITING = 64;

/** Files are `.ts` here and `.js` in the published package, and a thread's file is named in full. */
const ENTRY = new URL(`./render-thread${import.meta.url.slice(import.meta.url.lastIndexOf("."))}`, import.meta.url);

/** A thread that is started at the first prompt that needs it, and again after its end. It does not keep the process alive. */
export function startRenderThread(clock: Clock, log: Log): RenderThread {
  const waiting = new Map<number, (prompt: RenderedPrompt) => void>();
  const seeds: ChatPromptSeed[] = [];
  let thread: Worker | undefined;
  let known = new Set<number>();
  let ids = 0;
  const start = (): Worker => {
    const made = new Worker(ENTRY, { name: "cgn render" });
    made.unref();
    // Node holds it anew when it is up.
    made.once("online", () => made.unref());
    made.on("message", (message: FromRenderThread) => {
      const prompt = "prompt" in message ? message.prompt : { reason: message.thrown };
      waiting.get(message.id)?.(prompt);
    });
    const ended = (said: string): void => {
      if (thread !== made) return;
      thread = undefined;
      log
        .once(`render-thread/${said}`)
        .warn("The thread that renders long prompts ended; it is started anew", { said });
      for (const end of [...waiting.values()]) end({ reason: "the thread that renders long prompts ended" });
    };
    made.on("error", (e) => ended(e instanceof Error ? e.message : String(e)));
    made.on("exit", (code) => ended(`code ${code}`));
    known = new Set();
    thread = made;
    return made;
  };
  const ask = (model: number, api: ChatApi, body: Json): Promise<RenderedPrompt> => {
    if (waiting.size >= MAX_WAITING) return Promise.resolve({ reason: "too many long prompts wait to be rendered" });
    const to = thread ?? start();
    if (!known.has(model)) {
      known.add(model);
      to.postMessage({ type: "model", model, seed: seeds[model]! } satisfies ToRenderThread);
    }
    const id = ids++;
    return new Promise((resolve) => {
      const cancel = clock.after(DEADLINE_MS, () => end({ reason: `the template takes more than ${DEADLINE_MS} ms` }));
      const end = (prompt: RenderedPrompt): void => {
        cancel();
        waiting.delete(id);
        resolve(prompt);
      };
      waiting.set(id, end);
      to.postMessage({ type: "render", id, model, api, body } satisfies ToRenderThread);
    });
  };
  return {
    model(seed) {
      const model = seeds.push(seed) - 1;
      return { render: (api, body) => ask(model, api, body) };
    },
    close() {
      const last = thread;
      thread = undefined;
      void last?.terminate();
    },
  };
}
