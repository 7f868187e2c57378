import { prompts } from "../live/requests.ts";

/** One request of the comparison, for any engine that serves `smollm2`. */
export interface PairRequest {
  /** What is varied, for messages. */
  readonly name: string;
  readonly path: "/v1/chat/completions" | "/v1/completions";
  readonly body: Readonly<Record<string, unknown>>;
}

const TOOL = {
  type: "function",
  function: {
    name: "look_up",
    description: "Look a thing up in the town's archive",
    parameters: {
      type: "object",
      properties: { thing: { type: "string", maxLength: 12 }, year: { type: "integer", minimum: 1900, maximum: 1999 } },
      required: ["thing", "year"],
      additionalProperties: false,
    },
  },
};

const SCHEMA = {
  type: "json_schema",
  json_schema: {
    name: "scene",
    schema: {
      type: "object",
      properties: {
        place: { enum: ["harbour", "village", "castle", "garden"] },
        mood: { type: "string", maxLength: 16 },
        people: { type: "integer", minimum: 0, maximum: 99 },
      },
      required: ["place", "mood", "people"],
      additionalProperties: false,
    },
  },
};

const USAGE = { stream: true, stream_options: { include_usage: true } };
/** vLLM takes no greedy request for several choices; with a seed they are the same each time. */
const CHOICES = { n: 2, temperature: 0.7 };
const NAMED = { tools: [TOOL], tool_choice: { type: "function", function: { name: "look_up" } }, max_tokens: 40 };

type Kind = readonly [name: string, chat: boolean, more: (n: number) => object];

/** Twenty kinds; each is asked ten times, with another prompt and other members beside it. */
const KINDS: readonly Kind[] = [
  ["completion", false, () => ({})],
  ["completion, streamed", false, () => USAGE],
  ["completion, streamed without usage", false, () => ({ stream: true })],
  ["completion with log probabilities", false, () => ({ logprobs: 3 })],
  ["completion with log probabilities, streamed", false, () => ({ logprobs: 2, ...USAGE })],
  [
    "completion from token ids",
    false,
    (n) => ({ prompt: Array.from({ length: 60 }, (_, i) => 100 + ((i * 37 + n * 211) % 4_000)) }),
  ],
  ["completion, two choices", false, () => CHOICES],
  ["chat", true, () => ({})],
  ["chat, streamed", true, () => USAGE],
  [
    "chat, streamed with usage in each chunk",
    true,
    () => ({ stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } }),
  ],
  ["chat with log probabilities", true, () => ({ logprobs: true, top_logprobs: 2 })],
  ["chat with log probabilities, streamed", true, () => ({ logprobs: true, top_logprobs: 3, ...USAGE })],
  ["chat with a named tool", true, () => NAMED],
  ["chat with a named tool, streamed", true, () => ({ ...NAMED, ...USAGE })],
  ["chat with tools", true, () => ({ tools: [TOOL], tool_choice: "auto", max_tokens: 24 })],
  ["chat with a schema", true, () => ({ response_format: SCHEMA, max_tokens: 48 })],
  ["chat with a schema, streamed", true, () => ({ response_format: SCHEMA, max_tokens: 48, ...USAGE })],
  ["chat, two choices, streamed", true, () => ({ ...CHOICES, ...USAGE })],
  ["short chat", true, (n) => ({ messages: [{ role: "user", content: ["Hi", "Why?", "2 + 2?", "Sing."][n % 4] }] })],
  ["long chat", true, (n) => ({ messages: longChat(n) })],
];

/** Members that change how tokens are chosen, one to a request, by its number. */
const BESIDE: readonly (readonly [string, object])[] = [
  ["", {}],
  ["stop", { stop: [" the", "\n\n"] }],
  ["repetition_penalty", { repetition_penalty: 1.2 }],
  ["min_tokens", { min_tokens: 6 }],
  ["penalties", { presence_penalty: 0.6, frequency_penalty: 0.4 }],
  ["logit_bias", { logit_bias: { "284": 4, "260": -6 } }],
  ["ignore_eos", { ignore_eos: true }],
];

/** The same list each time: greedy, varied in what the answers are made of and in how they are sent. */
export function pairRequests(count: number): readonly PairRequest[] {
  const tales = prompts(count);
  return Array.from({ length: count }, (_, n) => {
    const [kind, isChat, more] = KINDS[n % KINDS.length]!;
    const [beside, members] = BESIDE[(n * 3 + Math.floor(n / KINDS.length)) % BESIDE.length]!;
    // A choice of a grammar with a bias or a stop text may have no way to go on.
    const grammar = /schema|tool/.test(kind);
    const messages = [
      { role: "system", content: "You tell tales, in short sentences." },
      { role: "user", content: tales[n]! },
    ];
    return {
      name: `${n}: ${kind}${grammar || beside === "" ? "" : `, ${beside}`}`,
      path: isChat ? "/v1/chat/completions" : "/v1/completions",
      body: {
        model: "smollm2",
        temperature: 0,
        seed: n,
        max_tokens: 8 + (n % 9),
        ...(isChat ? { messages } : { prompt: tales[n]! }),
        ...(grammar ? {} : members),
        ...more(n),
      },
    };
  });
}

/** Some 700 to 1,200 tokens over several turns. */
function longChat(n: number): object[] {
  const tales = prompts(200);
  const turns = 3 + (n % 3);
  return Array.from({ length: turns }, (_, i) => [
    { role: "user", content: tales[(n + 31 * i) % tales.length]! },
    { role: "assistant", content: tales[(n + 31 * i + 7) % tales.length]! },
  ])
    .flat()
    .concat([{ role: "user", content: "How does it end?" }]);
}
