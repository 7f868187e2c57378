import { parentPort } from "node:worker_threads";
import { type ChatPrompts, createChatPrompts } from "./chat-prompts.ts";
import type { FromRenderThread, ToRenderThread } from "./start-render-thread.ts";

/** The thread's entry: started by `startRenderThread()`. Runs long templates, so that other requests go on meanwhile. */
const port = parentPort;
const models = new Map<number, ChatPrompts>();

function answer(message: ToRenderThread): FromRenderThread | undefined {
  if (message.type === "model") {
    models.set(
      message.model,
      createChatPrompts(message.seed, () => new Date()),
    );
    return undefined;
  }
  if (message.type === "forget") {
    models.delete(message.model);
    return undefined;
  }
  const { id, model, api, body } = message;
  try {
    return { id, prompt: models.get(model)?.render(api, body) ?? { reason: "the model's template is not known" } };
  } catch (e) {
    return { id, thrown: e instanceof Error ? e.message : String(e) };
  }
}

port?.on("message", (message: ToRenderThread) => {
  const said = answer(message);
  if (said === undefined) return;
  const bytes = "prompt" in said && "bytes" in said.prompt ? said.prompt.bytes : undefined;
  port.postMessage(said, bytes === undefined ? [] : [bytes.buffer as ArrayBuffer]);
});
