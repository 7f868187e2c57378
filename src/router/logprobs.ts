import type { JudgeInput } from "../routing/cascade-judge.ts";
import { isObject } from "./answer.ts";

type Json = Readonly<Record<string, unknown>>;

/** What a chunk of a stream, or a whole answer, says of each choice: its tokens' log probabilities, and whether it ended. */
export function logprobsOf(answer: unknown, whole: boolean): JudgeInput[] {
  const choices = isObject(answer) ? answer["choices"] : undefined;
  if (!Array.isArray(choices)) return [];
  return choices.filter(isObject).map((choice) => ({
    choice: typeof choice["index"] === "number" ? choice["index"] : 0,
    logprobs: tokenLogprobs(choice["logprobs"]),
    generated: generates(choice),
    ended: whole || (choice["finish_reason"] ?? null) !== null,
  }));
}

/**
 * `content[].logprob` of chats (and of llama-server's text completions), `token_logprobs[]` of text completions. Null stands for the
 * first token of a prompt that is echoed.
 */
function tokenLogprobs(logprobs: unknown): number[] {
  if (!isObject(logprobs)) return [];
  const { content, token_logprobs: tokens } = logprobs;
  const told = Array.isArray(content)
    ? content.map((token) => (isObject(token) ? token["logprob"] : undefined))
    : tokens;
  if (!Array.isArray(told)) return [];
  return told.filter((logprob) => typeof logprob === "number" && !Number.isNaN(logprob));
}

/** Does it hold text, reasoning or a tool call? */
function generates(choice: Json): boolean {
  const part = choice["delta"] ?? choice["message"] ?? choice;
  if (!isObject(part)) return false;
  const { content, text, reasoning_content: thought, reasoning, tool_calls: calls } = part;
  return [content, text, thought, reasoning].some(isText) || (Array.isArray(calls) && calls.length > 0);
}

const isText = (v: unknown): boolean => typeof v === "string" && v !== "";

/**
 * The same answer as if nobody had asked for log probabilities.
 * @param unasked how the engine then has the member
 */
export function withoutLogprobs(answer: unknown, unasked: "null" | "absent"): unknown {
  const choices = isObject(answer) ? answer["choices"] : undefined;
  if (!isObject(answer) || !Array.isArray(choices)) return answer;
  return { ...answer, choices: choices.map((choice) => (isObject(choice) ? stripped(choice, unasked) : choice)) };
}

function stripped(choice: Json, unasked: "null" | "absent"): Json {
  if (!("logprobs" in choice)) return choice;
  if (unasked === "null") return { ...choice, logprobs: null };
  const { logprobs: _gone, ...rest } = choice;
  return rest;
}
