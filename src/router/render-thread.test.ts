import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { SILENT_LOG } from "../core/log.ts";
import { BYTE_CHAT_TEMPLATE } from "../prompt/byte-template.ts";
import { type ChatPromptSeed, createChatPrompts } from "./chat-prompts.ts";
import { type LoadedRenderer, loadRenderer } from "./model-renderer.ts";
import { type RenderThread, startRenderThread } from "./start-render-thread.ts";
import { vllmLike } from "./testing/probes.ts";
import { testWorker } from "./testing/test-router.ts";

/** Deadlines come when the test says so. */
function handClock(): Clock & { late(): void } {
  let due: (() => void)[] = [];
  return {
    now: () => 0,
    wall: () => 0,
    after(_ms, fn) {
      due.push(fn);
      return () => {
        due = due.filter((each) => each !== fn);
      };
    },
    late: () => {
      for (const fn of due) fn();
    },
  };
}

const seed: ChatPromptSeed = {
  kind: "vllm",
  template: BYTE_CHAT_TEMPLATE,
  bosToken: "",
  eosToken: "",
  specialTokens: {},
};
const turns = (count: number) => ({
  messages: Array.from({ length: count }, (_, i) => ({
    role: i % 2 === 0 ? "user" : "assistant",
    content: `turn ${i}`,
  })),
});

let thread: RenderThread | undefined;
afterEach(() => thread?.close());

describe("startRenderThread()", () => {
  it("renders what the asking thread would", async () => {
    thread = startRenderThread(handClock(), SILENT_LOG);
    const there = thread.model(seed);
    const here = createChatPrompts(seed, undefined);
    for (const count of [1, 3, 100]) {
      expect(await there.render("chat", turns(count))).toEqual(here.render("chat", turns(count)));
    }
    const message = { messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }], system: "s" };
    expect(await there.render("messages", message)).toEqual(here.render("messages", message));
  });

  it("does not keep a process alive that forgot to close it", () => {
    // The fuzz of the router never ended after its figures: the thread's port was held anew when it was up.
    const script = `
      const { startRenderThread } = await import(${JSON.stringify(new URL("start-render-thread.ts", import.meta.url).href)});
      const clock = { now: () => 0, wall: () => 0, after: () => () => {} };
      const there = startRenderThread(clock, {}).model(${JSON.stringify(seed)});
      setTimeout(() => {}, 2_000).ref();
      console.log("reason" in await there.render("chat", { messages: [] }));
    `;
    const folder = mkdtempSync(join(tmpdir(), "cgn-render-"));
    const file = join(folder, "forgets.mjs");
    writeFileSync(file, script);
    const { status, stdout } = spawnSync(process.execPath, [file], { timeout: 60_000, encoding: "utf8" });
    rmSync(folder, { recursive: true });
    expect([status, stdout]).toEqual([0, "false\n"]);
  }, 90_000);

  it("tells what a template says against a chat, and goes on", async () => {
    thread = startRenderThread(handClock(), SILENT_LOG);
    const strict = thread.model({ ...seed, template: "{{ raise_exception('no') }}" });
    expect(await strict.render("chat", turns(1))).toEqual({ reason: "Cannot render the chat template: no" });
    expect(await thread.model(seed).render("chat", turns(1))).toHaveProperty("bytes");
  });

  it("gives up a prompt that takes too long", async () => {
    const clock = handClock();
    thread = startRenderThread(clock, SILENT_LOG);
    const prompt = thread.model(seed).render("chat", turns(1));
    clock.late();
    expect(await prompt).toHaveProperty("reason", "the template takes more than 200 ms");
  });

  it("renders long chats only, and not those whose template is compiled", async () => {
    thread = startRenderThread(handClock(), SILENT_LOG);
    const deps = { env: {}, engineOf: () => vllmLike, ask: async () => undefined, now: () => new Date(0), thread };
    const { renderer }: LoadedRenderer = await loadRenderer(
      { ...testWorker("a", "http://127.0.0.1:1"), tokenizer: { bytes: true } },
      deps,
    );
    expect(renderer?.chat(turns(3))).toHaveProperty("bytes");
    expect(renderer?.chat(turns(200))).toBeInstanceOf(Promise);
  });
});
