import { checkTypes, coerced, type FieldType, type Finding, missing, PythonText, sglangFindings } from "./pydantic.ts";
import type { Answer } from "./routes.ts";
import { sglangError } from "./sglang-bodies.ts";
import type { TokenizeWording } from "./tokenize-routes.ts";

type Body = Readonly<Record<string, unknown>>;

const SAMPLING: Readonly<Record<string, FieldType>> = {
  max_tokens: "int",
  max_completion_tokens: "int",
  min_tokens: "int",
  n: "int",
  seed: "int",
  priority: "int",
  top_k: "int",
  temperature: "float",
  top_p: "float",
  min_p: "float",
  presence_penalty: "float",
  frequency_penalty: "float",
  repetition_penalty: "float",
  stop: "stop",
  stream: "bool",
  ignore_eos: "bool",
  user: "str",
  cache_salt: "stop",
  logit_bias: "dict",
  stream_options: "model",
};
const TYPES: Readonly<Record<"chat" | "completion", Readonly<Record<string, FieldType>>>> = {
  chat: {
    ...SAMPLING,
    messages: "list",
    top_logprobs: "int",
    logprobs: "bool",
    tools: "list",
    response_format: "model",
  },
  completion: { ...SAMPLING, logprobs: "int", echo: "bool", best_of: "int", suffix: "str" },
};

const bad = (message: string): Answer => ({ status: 400, body: sglangError(400, "BadRequestError", message) });

/** Pydantic's findings as SGLang 0.5.23 answers them: with the place in its sources. */
export function sglangMalformed(findings: readonly Finding[], path: string): Answer {
  return { status: 400, body: sglangError(400, "Bad Request", sglangFindings(findings, path)) };
}

/** A body that is no JSON. */
export function sglangBroken(text: string, path: string): Answer {
  if (text === "")
    return sglangMalformed([{ type: "missing", loc: ["body"], msg: "Field required", input: null }], path);
  const error =
    /[{,]\s*$/.test(text) && !/\[[^\]}]*$/.test(text)
      ? "Expecting property name enclosed in double quotes"
      : "Expecting value";
  const finding = {
    type: "json_invalid",
    loc: ["body", text.length],
    msg: "JSON decode error",
    input: {},
    ctx: { error },
  };
  return sglangMalformed([finding], path);
}

const ONE_OF = "Exactly one of 'prompt' or 'messages' must be provided.";

/** What its tokenizer routes refuse. */
export const SGLANG_TOKENIZE: TokenizeWording = {
  malformed: sglangMalformed,
  broken: sglangBroken,
  noPrompt(body) {
    const { prompt } = body;
    const loc = ["body", "prompt"];
    if (prompt === undefined) {
      const ctx = { error: new PythonText(`ValueError("${ONE_OF}")`) };
      return [{ type: "value_error", loc: ["body"], msg: `Value error, ${ONE_OF}`, input: body, ctx }];
    }
    return [
      { type: "list_type", loc: [...loc, "list[str]"], msg: "Input should be a valid list", input: prompt },
      { type: "string_type", loc: [...loc, "str"], msg: "Input should be a valid string", input: prompt },
    ];
  },
  noList: (input) =>
    ["list[int]", "list[list[int]]"].map((each) => ({
      type: "list_type",
      loc: ["body", "tokens", each],
      msg: "Input should be a valid list",
      input,
    })),
  negative: () => ({
    status: 500,
    body: sglangError(
      500,
      "InternalServerError",
      "Internal server error during detokenization: number too small to fit in target type",
    ),
  }),
};

/** What SGLang 0.5.23 refuses before it looks at the prompt; else the body with its members as they are meant. */
export function checkSglang(kind: "chat" | "completion", value: unknown, path: string): Answer | { readonly ok: Body } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const msg = "Input should be a valid dictionary or object to extract fields from";
    return sglangMalformed([{ type: "model_attributes_type", loc: ["body"], msg, input: value }], path);
  }
  const body = value as Body;
  const needed = kind === "chat" ? "messages" : "prompt";
  if (body[needed] === undefined) return sglangMalformed([missing(needed, body)], path);
  const findings = checkTypes(body, TYPES[kind]);
  if (findings.length > 0) return sglangMalformed(findings, path);
  const meant = coerced(body, TYPES[kind]);
  return (kind === "chat" ? checkChat(meant) : checkPrompt(meant)) ?? checkSampling(meant) ?? { ok: meant };
}

function checkChat(body: Body): Answer | undefined {
  if (Array.isArray(body["messages"]) && body["messages"].length === 0) return bad("Messages cannot be empty.");
  const { tools, tool_choice: choice } = body;
  const named = ((choice as Body | undefined)?.["function"] as Body | undefined)?.["name"];
  if (choice === "required" && !Array.isArray(tools))
    return bad("Tools cannot be empty if tool choice is set to required.");
  if (named === undefined || !Array.isArray(tools)) return undefined;
  const names = (tools as readonly Body[]).map((tool) => (tool["function"] as Body | undefined)?.["name"]);
  return names.includes(named) ? undefined : bad(`Tool '${String(named)}' not found in tools list.`);
}

function checkPrompt({ prompt }: Body): Answer | undefined {
  if (prompt === "" || prompt === null || (Array.isArray(prompt) && prompt.length === 0))
    return bad("Prompt cannot be empty");
  return undefined;
}

/** The ranges of `SamplingParams.verify()`. */
function checkSampling(body: Body): Answer | undefined {
  const number = (name: string): number | undefined => (typeof body[name] === "number" ? body[name] : undefined);
  const [temperature, topP, topK, n] = ["temperature", "top_p", "top_k", "n"].map(number);
  if (n !== undefined && n < 1) return bad("n must be at least 1");
  if (temperature !== undefined && temperature < 0) return bad(`temperature must be non-negative, got ${temperature}.`);
  if (topP !== undefined && !(topP > 0 && topP <= 1)) return bad(`top_p must be in (0, 1], got ${topP}.`);
  if (topK !== undefined && topK < -1) return bad(`top_k must be -1 (disable) or at least 1, got ${topK}.`);
  for (const name of ["frequency_penalty", "presence_penalty"]) {
    const value = number(name);
    if (value !== undefined && Math.abs(value) > 2) return bad(`${name} must be in [-2, 2], got ${value}.`);
  }
  return undefined;
}
