import { afterEach, describe, expect, it } from "vitest";
import { rootKey } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Two engines of one base model; only the first has the adapter "tiny". */
async function rig(over: Partial<WorkerInfo> = {}) {
  const [a, b] = [await startFakeEngine(), await startFakeEngine()];
  const both = { models: ["base"], ...over };
  const test = await startTestRouter(
    [
      testWorker("a", a.url, { ...both, models: [...both.models, "tiny"], adapters: ["tiny"] }),
      testWorker("b", b.url, both),
    ],
    { policy: "round_robin" },
  );
  closers.push(a.close, b.close, () => test.router.close());
  const ask = async (body: object) => {
    const headers = { "content-type": "application/json" };
    const messages = [{ role: "user", content: "Where do the glass plates lie?" }];
    const init = { method: "POST", headers, body: JSON.stringify({ messages, ...body }) };
    return (await fetch(`${test.url}/v1/chat/completions`, init)).status;
  };
  return { ...test, a, b, ask };
}

const modelsOf = ({ seen }: { readonly seen: readonly { readonly body: string }[] }): unknown[] =>
  seen.map(({ body }) => (JSON.parse(body) as { model: unknown }).model);

describe("a request for a LoRA adapter", () => {
  it("goes to the engines that have it, and is matched under its own root, with the salt", async () => {
    // Broke: it was matched under the base model's root, where it seemed to have what only base requests had cached.
    const { ask, a, b, knowledge } = await rig();
    for (const body of [{ model: "tiny" }, { model: "tiny", cache_salt: "s" }, { model: "base" }, { model: "base" }]) {
      expect(await ask(body)).toBe(200);
    }
    expect(knowledge.queries.map(({ model, root }) => [model, root])).toEqual([
      ["tiny", rootKey("tiny", "")],
      ["tiny", rootKey("tiny", "s")],
      ["base", ""],
      ["base", ""],
    ]);
    expect(knowledge.outcomes.map(({ root }) => root)).toEqual(knowledge.queries.map(({ root }) => root));
    expect(modelsOf(a).filter((model) => model === "tiny")).toHaveLength(2);
    expect(modelsOf(b)).not.toContain("tiny");
  });

  it("keeps its name where the engine wants another name for the base model", async () => {
    const { ask, a, b } = await rig({ upstreamModel: "org/base" });
    await ask({ model: "tiny" });
    await ask({ model: "base" });
    expect([...modelsOf(a), ...modelsOf(b)]).toEqual(["tiny", "org/base"]);
  });

  it("is named as the engine names adapters, or by lora_path", async () => {
    const { ask, a, knowledge } = await rig({ traits: { adapterJoin: ":" } });
    await ask({ model: "tiny" });
    expect(modelsOf(a)).toEqual(["base:tiny"]);
    await ask({ model: "base", lora_path: "tiny" });
    expect(knowledge.queries.map(({ root }) => root)).toEqual([rootKey("tiny", ""), rootKey("tiny", "")]);
  });
});
