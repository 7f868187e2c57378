import type { Difference } from "./compare.ts";

/** The engines that are compared. */
export type ComparedKind = "llama_cpp" | "vllm" | "sglang";

interface Known {
  readonly kind: ComparedKind;
  /** Names of cases, or a beginning of them with `*`. */
  readonly cases: readonly string[];
  readonly what: Difference["what"];
  readonly why: string;
}

/** Where the simulated engine differs from the real one, and why. What is not here must not differ. */
export const KNOWN: readonly Known[] = [
  {
    kind: "llama_cpp",
    cases: ["GET /props"],
    what: "body",
    why: "`simulated` tells a router which vocabulary it has",
  },
  {
    kind: "llama_cpp",
    cases: ["chat: stop text, streamed"],
    what: "body",
    why: "the real model's first token has the stop text; the simulated one's tokens are single bytes",
  },
  {
    kind: "vllm",
    cases: ["GET /version"],
    what: "body",
    why: "`simulated` tells a router which vocabulary it has",
  },
  {
    kind: "vllm",
    cases: ["GET /metrics"],
    what: "body",
    why: "figures of Python's process and of parts that are not simulated are left out; those that are there have their names",
  },
  {
    kind: "vllm",
    cases: ["chat: stop text, streamed"],
    what: "body",
    why: "the real model's first token has the stop text; the simulated one's tokens are single bytes",
  },
  {
    kind: "vllm",
    cases: [
      "chat: messages of numbers",
      "chat: a message without a role",
      "chat: content null",
      "chat: content a number",
      "chat: role a number",
      "chat: an unknown part",
      "chat: a part without text",
      "chat: an unknown response format",
      "chat: response format a text",
      "completion: a negative id",
      "completion: ids and texts mixed",
    ],
    what: "words",
    why: "pydantic lists every alternative of a union; the simulator names the first of each",
  },
  {
    kind: "sglang",
    cases: [
      "GET /server_info",
      "GET /get_server_info",
      "GET /model_info",
      "GET /get_model_info",
      "GET /v1/loads",
      "GET /metrics",
    ],
    what: "body",
    why: "of hundreds of settings and figures those that a control plane reads; `simulated` tells which vocabulary it has",
  },
  {
    kind: "sglang",
    cases: ["messages: a stop text"],
    what: "body",
    why: "the recorded engine was started again before it: nothing was cached yet",
  },
  {
    kind: "sglang",
    cases: ["chat: an answer before"],
    what: "body",
    why: "the real model ended its answer within four tokens",
  },
  {
    kind: "sglang",
    cases: [
      "responses: input a number",
      "chat: messages of numbers",
      "chat: a message without a role",
      "chat: a message without content",
      "chat: content null",
      "chat: content a number",
      "chat: role a number",
      "chat: an unknown role",
      "chat: an unknown part",
      "chat: a part without text",
      "chat: an unknown response format",
      "chat: an unknown tool_choice",
    ],
    what: "words",
    why: "pydantic lists every alternative of a union; the simulator names the first",
  },
];

/** Why a difference is as it is; undefined when it should not be. */
export function whyKnown(kind: ComparedKind, { name, what }: Difference): string | undefined {
  return KNOWN.find((known) => known.kind === kind && known.what === what && known.cases.includes(name))?.why;
}
