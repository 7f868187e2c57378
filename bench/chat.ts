import type { ChatRequest } from "../src/core/chat-request.ts";
import { workerId } from "../src/core/ids.ts";
import type { PrefixMatch } from "../src/kvindex/prefix-index.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import { createFastChatRenderer } from "../src/prompt/chat-skeletons.ts";
import { cpuMs } from "./index-under-test.ts";
import { type BenchResult, figure, machine, printResult } from "./result.ts";

const WORKERS = 16;
const CHATS = 200;
const ROUNDS = 5;
const BLOCK_BYTES = 64;
const TURNS = 16;
const CHAT_BYTES = 32_768;

/** ChatML, as Qwen's and others' templates write it. */
const TEMPLATE = [
  "{%- for message in messages %}",
  "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}",
  "{%- endfor %}",
  "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
].join("\n");

interface Message {
  readonly role: string;
  readonly content: string;
}

/** Words of about five letters, another text for each seed. */
function words(bytes: number, seed: number): string {
  let state = seed | 1;
  let text = "";
  while (text.length < bytes) {
    state = Math.imul(state, 1664525) + 1013904223;
    text += `${(state >>> 8).toString(36)} `;
  }
  return text.slice(0, bytes);
}

function chat(seed: number): Message[] {
  const each = Math.floor(CHAT_BYTES / TURNS);
  return Array.from({ length: TURNS }, (_, i) => ({
    role: i === 0 ? "system" : i % 2 === 1 ? "user" : "assistant",
    content: words(each, i === 0 ? 7 : seed * TURNS + i),
  }));
}

const body = (messages: readonly Message[]) => JSON.stringify({ model: "m", messages, stream: true });

/**
 * From a request's text to who holds its prefix: JSON read, template rendered, bytes hashed and matched. Chats of 32 KB, each
 * held by one of 16 workers but for its last turn; then the next turn of each.
 */
export async function run({ json }: { readonly json: boolean }): Promise<BenchResult> {
  const renderer = createFastChatRenderer({ template: TEMPLATE, bosToken: "", eosToken: "<|im_end|>" });
  const index = createPrefixIndex({ capBytes: 2 ** 30, seed: 1 });
  const slots = Array.from({ length: WORKERS }, (_, i) => index.addWorker(workerId(`w${i}`)));
  const render = (text: string): Uint8Array => {
    const rendered = renderer.render(JSON.parse(text) as ChatRequest);
    if (!("bytes" in rendered)) throw new Error(rendered.reason);
    return rendered.bytes;
  };
  let names = 1n;
  const store = (slot: number, bytes: Uint8Array) => {
    const count = Math.floor(bytes.length / BLOCK_BYTES);
    const list = BigUint64Array.from({ length: count }, () => names++);
    const ends = Uint32Array.from(list, (_, i) => (i + 1) * BLOCK_BYTES);
    index.store(slot, { root: "", parent: undefined, names: list, bytes, ends, blockTokens: 16, tier: "device" });
  };
  const cold: string[] = [];
  const next: string[] = [];
  for (let i = 0; i < CHATS; i++) {
    const messages = chat(i + 1);
    store(slots[i % WORKERS]!, render(body(messages.slice(0, -1))));
    cold.push(body(messages));
    next.push(body([...messages, { role: "user", content: words(300, -i) }]));
  }
  const out: PrefixMatch[] = [];
  const of = (texts: readonly string[], work: (text: string) => void) =>
    Array.from({ length: ROUNDS }, () => (cpuMs(() => texts.forEach(work)) * 1000) / texts.length);
  const prompts = cold.map(render);
  const rounds = [...cold, ...cold, ...cold, ...cold];
  const name = `chat of ${CHAT_BYTES / 1024} KiB, ${TURNS} messages`;
  const results = [
    figure(
      name,
      "read, render, hash and match, all of it",
      "us",
      of(rounds, (text) => void index.match("", render(text), out)),
    ),
    figure(
      name,
      "of that JSON.parse",
      "us",
      of(rounds, (text) => void JSON.parse(text)),
    ),
    figure(
      name,
      "of that hash and match",
      "us",
      Array.from({ length: ROUNDS }, () => {
        const ms = cpuMs(() => {
          for (let i = 0; i < 20; i++) for (const prompt of prompts) index.match("", prompt, out);
        });
        return (ms * 1000) / (20 * prompts.length);
      }),
    ),
    figure(
      name,
      "its next turn",
      "us",
      of([...next, ...next, ...next, ...next], (text) => void index.match("", render(text), out)),
    ),
  ];
  const result: BenchResult = { bench: "chat", results, machine: machine() };
  printResult(result, json);
  return result;
}
