import type { ChatRequest } from "../core/chat-request.ts";

/** A chat whose tokens are asked from an engine, to prove that rendered bytes equal decoded ids there. */
export interface ProbeChat {
  readonly name: string;
  readonly request: ChatRequest;
}

/** What a comparison found. */
export type ParityVerdict =
  | { readonly equal: true }
  | {
      readonly equal: false;
      /** First byte that differs. */
      readonly at: number;
      /** Some text around it on either side, for people. */
      readonly rendered: string;
      readonly decoded: string;
    };

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const system = (content: unknown) => ({ role: "system", content });

const TEXTS: Readonly<Record<string, string>> = {
  plain: "What is the capital of France?",
  "one letter": "a",
  "one space": " ",
  empty: "",
  "leading space": "  two spaces before",
  "trailing space": "two spaces after  ",
  "line ends": "one\ntwo\n\nthree\n\n\nfour",
  "windows line ends": "one\r\ntwo\r\n",
  "only line ends": "\n\n\n",
  tabs: "\tone\t\ttwo",
  "long spaces": `x${" ".repeat(70)}y`,
  "no-break space": "10\u00a0000\u202f€",
  "zero width": "a\u200bb\ufeffc\u2060d",
  russian: "Почему небо голубое? Объясните, пожалуйста, коротко.",
  greek: "Γιατί ο ουρανός είναι γαλάζιος;",
  arabic: "لماذا السماء زرقاء؟",
  hebrew: "מדוע השמיים כחולים?",
  hindi: "आकाश नीला क्यों है?",
  thai: "ทำไมท้องฟ้าถึงเป็นสีฟ้า",
  chinese: "天空为什么是蓝色的？请简短回答。",
  japanese: "空はなぜ青いのですか。短く答えてください。",
  korean: "하늘은 왜 파란가요? 짧게 답해 주세요.",
  emoji: "Rate this: 👍🏽👩‍👩‍👧‍👦🏳️‍🌈 🎉!!",
  "composed accents": "café déjà vu",
  "combining accents": "cafe\u0301 de\u0301ja\u0300 vu",
  ligatures: "ﬁne ﬂow ½ ² ①",
  "full width": "ＡＢＣ１２３",
  numbers: "3.14159 1,000,000 0x1F 1e-9 2026-11-29T12:00:00Z",
  python: "def f(x):\n    if x > 1:\n        return f(x - 1) * x\n    return 1\n",
  json: '{"a": [1, 2.5, null, true], "b": {"c": "\\"quoted\\" \\\\ \\n"}}',
  html: '<div class="a">&amp; &lt;b&gt;</div><!-- c -->',
  "looks special": "<|im_start|> <|endoftext|> </s> [INST] <start_of_turn>",
  braces: "{{ not }} {% a %} {# template #}",
  punctuation: "Wait... what?! (yes) — “no” ‘maybe’ …",
  "private use": "\ue000\uf8ff",
  "repeated letters": "a".repeat(300),
};

const WEATHER_TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Weather at a place, now",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

const CALL = {
  id: "call_1",
  type: "function",
  function: { name: "get_weather", arguments: '{"city": "Zürich"}' },
};

const SHAPES: readonly ProbeChat[] = [
  { name: "system first", request: { messages: [system("Answer briefly."), user("Hi")] } },
  {
    name: "three turns",
    request: { messages: [user("Hi"), assistant("Hello! How can I help?"), user("Tell me a joke")] },
  },
  { name: "empty system", request: { messages: [system(""), user("Hi")] } },
  { name: "answer with spaces", request: { messages: [user("Hi"), assistant("  Hello \n"), user("Bye ")] } },
  {
    name: "text parts",
    request: {
      messages: [
        user([
          { type: "text", text: "one" },
          { type: "text", text: "two" },
        ]),
      ],
    },
  },
  { name: "tools", request: { messages: [user("Weather in Zürich?")], tools: [WEATHER_TOOL] } },
  {
    name: "tool call and result",
    request: {
      messages: [
        user("Weather in Zürich?"),
        { role: "assistant", content: null, tool_calls: [CALL] },
        { role: "tool", tool_call_id: "call_1", content: '{"celsius": 4}' },
        user("And tomorrow?"),
      ],
      tools: [WEATHER_TOOL],
    },
  },
  { name: "no generation prompt", request: { messages: [user("Hi")], add_generation_prompt: false } },
  { name: "long", request: { messages: [user("All work and no play makes Jack a dull boy. ".repeat(60))] } },
];

/**
 * Chats that find where a rendered prompt and an engine's tokens part: scripts, emoji, code, odd white space, Unicode forms,
 * text that looks like special tokens, tools, shapes of a conversation. A template may refuse some; those prove nothing.
 */
export const PROBE_CHATS: readonly ProbeChat[] = [
  ...Object.entries(TEXTS).map(([name, text]) => ({ name, request: { messages: [user(text)] } })),
  ...SHAPES,
];

/** Bytes shown on each side of a difference. */
const SHOWN = 24;

/**
 * Compare a rendered prompt with the decoded ids that an engine gave for the same chat. Undefined `decoded` (an id that the
 * vocabulary lacks) differs at byte 0.
 */
export function compareParity(rendered: Uint8Array, decoded: Uint8Array | undefined): ParityVerdict {
  if (decoded === undefined)
    return { equal: false, at: 0, rendered: shown(rendered, 0), decoded: "(an unknown token id)" };
  const shorter = Math.min(rendered.length, decoded.length);
  let at = 0;
  while (at < shorter && rendered[at] === decoded[at]) at++;
  if (at === rendered.length && at === decoded.length) return { equal: true };
  return { equal: false, at, rendered: shown(rendered, at), decoded: shown(decoded, at) };
}

function shown(bytes: Uint8Array, at: number): string {
  return new TextDecoder().decode(bytes.subarray(Math.max(0, at - SHOWN), at + SHOWN));
}
