import { makeAnswer } from "../text.ts";
import type { Choice, ToolCall } from "./answer-shapes.ts";
import { madeJson } from "./made-json.ts";

/** What decides the answers to a request. */
export interface AnswerWishes {
  /** Token ids; several prompts in one request get answers each. */
  readonly prompts: readonly (readonly number[])[];
  /** Answers a prompt. */
  readonly n: number;
  readonly seed: number;
  readonly maxTokens: number;
  readonly minTokens?: number;
  readonly ignoreEos?: boolean;
  readonly stop: readonly string[];
  /** The stop text stays at the answer's end. */
  readonly keepsStop?: boolean;
  /** The answer must be JSON that this schema allows; true: any. */
  readonly json?: unknown;
  readonly call?: { readonly id: string; readonly name: string; readonly parameters: unknown };
}

/** Make up the answers, in the order of their index. */
export function settleAnswers(wishes: AnswerWishes): readonly Choice[] {
  const { prompts, n } = wishes;
  return prompts.flatMap((prompt, i) => Array.from({ length: n }, (_, j) => settle(wishes, prompt, i * n + j)));
}

function settle(wishes: AnswerWishes, prompt: readonly number[], index: number): Choice {
  const { call, json, maxTokens } = wishes;
  if (call !== undefined || json !== undefined) {
    const made = madeJson(call === undefined ? json : call.parameters);
    const text = made.slice(0, maxTokens);
    const toolCall: ToolCall | undefined =
      call === undefined ? undefined : { id: call.id, name: call.name, arguments: text };
    const finish = made.length > maxTokens ? "length" : "stop";
    return { index, text, finish, stopReason: null, prompt, ...(toolCall === undefined ? {} : { call: toolCall }) };
  }
  const answer = makeAnswer({
    prompt,
    seed: wishes.seed + index,
    maxTokens,
    ...(wishes.minTokens === undefined ? {} : { minTokens: wishes.minTokens }),
    ignoreEos: wishes.ignoreEos === true,
    stop: wishes.stop,
  });
  const kept =
    wishes.keepsStop === true && answer.stopReason !== undefined ? answer.text + answer.stopReason : answer.text;
  return { index, text: kept, finish: answer.finish, stopReason: answer.stopReason ?? null, prompt };
}

type Body = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Body => (typeof value === "object" && value !== null ? (value as Body) : {});

/** The schema that `response_format` (or vLLM's `structured_outputs.json`) asks for; true for any JSON, undefined for text. */
export function wantedJson(body: Body): unknown {
  const format = fieldsOf(body["response_format"]);
  if (format["type"] === "json_object") return format["schema"] ?? true;
  if (format["type"] === "json_schema") return fieldsOf(format["json_schema"])["schema"] ?? format["schema"] ?? true;
  const structured = fieldsOf(body["structured_outputs"])["json"];
  return structured ?? undefined;
}

/** The tool that must be called: the one that `tool_choice` names, or the first when it is `required`. */
export function wantedCall(body: Body, id: string): AnswerWishes["call"] {
  const tools = Array.isArray(body["tools"]) ? body["tools"].map((tool) => fieldsOf(fieldsOf(tool)["function"])) : [];
  const choice = body["tool_choice"];
  const named = fieldsOf(fieldsOf(choice)["function"])["name"];
  const tool = choice === "required" ? tools[0] : tools.find(({ name }) => name === named && named !== undefined);
  if (tool === undefined) return undefined;
  return { id, name: String(tool["name"]), parameters: tool["parameters"] ?? { type: "object" } };
}

/** Texts that end an answer. */
export const stopTexts = (value: unknown): readonly string[] =>
  [value].flat().filter((text): text is string => typeof text === "string");
