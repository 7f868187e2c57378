import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { PLAIN_DIALECT } from "../src/core/chat-dialect.ts";
import type { ChatRequest } from "../src/core/chat-request.ts";
import { llamaCpp } from "../src/engines/llama-cpp/llama-cpp.ts";
import { createFastChatRenderer } from "../src/prompt/chat-skeletons.ts";
import { createChatRenderer, type RenderedPrompt } from "../src/prompt/chat-template.ts";

interface Recorded {
  readonly props: Readonly<Record<string, unknown>>;
  readonly cases: readonly {
    readonly name: string;
    readonly request: ChatRequest;
    readonly prompt?: string;
    readonly refused?: string;
  }[];
}

const FILE = new URL("fixtures/llama-cpp/apply-template.jsonl", import.meta.url);
const recorded = readFileSync(FILE, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);

/** Chats whose prompt is not known: they are routed by load. */
const DECLINED = new Set(["prefill parts"]);

const textOf = (prompt: RenderedPrompt): string =>
  "bytes" in prompt ? new TextDecoder().decode(prompt.bytes) : `none: ${prompt.reason}`;

// A chat with the role "developer" was predicted 49 tokens long where the engine had 21: roles, last messages and contents
// are changed by the engine before its template sees them.
describe("chats as llama-server renders them", () => {
  for (const [i, { props, cases }] of recorded.entries()) {
    const told = llamaCpp.probe.template?.parse(JSON.stringify(props));
    const options = {
      template: told?.template ?? "",
      bosToken: told?.bos ?? "",
      eosToken: told?.eos ?? "",
      dialect: { ...PLAIN_DIALECT, ...llamaCpp.chat, ...told?.chat },
    };
    const exact = createChatRenderer(options);
    const fast = createFastChatRenderer(options);
    for (const { name, request, prompt } of cases) {
      if (prompt === undefined) continue;
      it(`render() gives what /apply-template gives: template ${i}, ${name}`, () => {
        const text = textOf(exact.render(request));
        if (DECLINED.has(name)) expect(text).toMatch(/^none: /);
        else expect(text).toBe(prompt);
        for (let n = 0; n < 3; n++) expect(textOf(fast.render(request))).toBe(text);
      });
    }
  }
});
