import { checkTypes, coerced, type FieldType, type Finding, missing, vllmFindings } from "./pydantic.ts";
import type { TokenizeWording } from "./tokenize-routes.ts";
import { vllmError } from "./vllm-bodies.ts";

type Body = Readonly<Record<string, unknown>>;
type Answer = { readonly status: number; readonly body: object };

/** Most alternatives that `logprobs` may ask for (`--max-logprobs`), and the vocabulary that -1 stands for. */
const MOST_LOGPROBS = 20;
const VOCABULARY = 256;

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
  echo: "bool",
  ignore_eos: "bool",
  user: "str",
  cache_salt: "str",
  logit_bias: "dict",
  stream_options: "model",
  prompt_logprobs: "int",
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
  completion: { ...SAMPLING, logprobs: "int", best_of: "int", suffix: "str" },
};

const bad = (message: string, param: string | null = null): Answer => ({
  status: 400,
  body: vllmError(400, "BadRequestError", message, param),
});

/** An error that names its parameter and value, as vLLM's own validation words it. */
const wrong = (param: string, message: string, value?: string): Answer =>
  bad(`${message} (parameter=${param}${value === undefined ? "" : `, value=${value}`})`, param);

/** Pydantic's findings as FastAPI's handler answers them. */
export function malformed(findings: readonly Finding[]): Answer {
  const param = findings[0]?.loc.join(".") ?? "body";
  return { status: 400, body: vllmError(400, "Bad Request", vllmFindings(findings), param) };
}

/** A body that is no JSON: where the decoder stopped, and what it missed there. */
export function brokenJson(text: string): Answer {
  if (text === "") return malformed([{ type: "missing", loc: ["body"], msg: "Field required", input: null }]);
  const error =
    /[{,]\s*$/.test(text) && !/\[[^\]}]*$/.test(text)
      ? "Expecting property name enclosed in double quotes"
      : "Expecting value";
  return malformed([
    { type: "json_invalid", loc: ["body", text.length], msg: "JSON decode error", input: {}, ctx: { error } },
  ]);
}

/** What its tokenizer routes refuse. */
export const VLLM_TOKENIZE: TokenizeWording = {
  malformed,
  broken: brokenJson,
  noPrompt(body) {
    const { prompt } = body;
    const type: Finding = {
      type: "string_type",
      loc: ["body", "prompt"],
      msg: "Input should be a valid string",
      input: prompt,
    };
    return [prompt === undefined ? missing("prompt", body) : type, missing("messages", body)];
  },
  noList: (input) => [{ type: "list_type", loc: ["body", "tokens"], msg: "Input should be a valid list", input }],
  negative: (index, input) =>
    malformed([
      {
        type: "greater_than_equal",
        loc: ["body", "tokens", index],
        msg: "Input should be greater than or equal to 0",
        input,
        ctx: { ge: 0 },
      },
    ]),
};

/** What vLLM 0.32.0 refuses before it looks at the prompt; else the body with its members as they are meant. */
export function checkVllm(kind: "chat" | "completion", value: unknown): Answer | { readonly ok: Body } {
  if (value === null) return malformed([{ type: "missing", loc: ["body"], msg: "Field required", input: null }]);
  if (typeof value !== "object" || Array.isArray(value)) {
    const msg = "Input should be a valid dictionary or object to extract fields from";
    return malformed([{ type: "model_attributes_type", loc: ["body"], msg, input: value }]);
  }
  const body = value as Body;
  if (kind === "chat" && body["messages"] === undefined) return malformed([missing("messages", body)]);
  const findings = [...checkTypes(body, TYPES[kind]), ...(kind === "chat" ? checkShapes(body) : [])];
  if (findings.length > 0) return malformed(findings);
  const meant = coerced(body, TYPES[kind]);
  return (kind === "chat" ? checkChat(meant) : checkCompletion(meant)) ?? checkSampling(meant) ?? { ok: meant };
}

/** Messages, tools and formats: the first finding of each of the alternatives that pydantic tries. */
function checkShapes(body: Body): readonly Finding[] {
  const messages = Array.isArray(body["messages"]) ? (body["messages"] as readonly unknown[]) : [];
  const findings = messages.flatMap((message, i) => checkMessage(message, i));
  const tools = Array.isArray(body["tools"]) ? (body["tools"] as readonly Body[]) : [];
  const nameless = tools.flatMap((tool, i): Finding[] =>
    tool["function"] === undefined
      ? [{ type: "missing", loc: ["body", "tools", i, "function"], msg: "Field required", input: tool }]
      : [],
  );
  return [...findings, ...nameless, ...checkFormat(body["response_format"])];
}

const KINDS = ["Developer", "System", "User", "Assistant", "Tool", "Function"];

function checkMessage(message: unknown, i: number): readonly Finding[] {
  const at = (kind: string, ...more: readonly string[]) => [
    "body",
    "messages",
    i,
    `ChatCompletion${kind}MessageParam`,
    ...more,
  ];
  if (typeof message !== "object" || message === null) {
    const msg = "Input should be a valid dictionary";
    return [...KINDS, "Custom", "OpenAIHarmony"].map((kind) => ({
      type: "dict_type",
      loc: at(kind),
      msg,
      input: message,
    }));
  }
  const { role, content } = message as Body;
  if (role === undefined) {
    return KINDS.map((kind) => ({ type: "missing", loc: at(kind, "role"), msg: "Field required", input: message }));
  }
  if (typeof role !== "string") {
    return KINDS.map((kind) => ({
      type: "literal_error",
      loc: at(kind, "role"),
      msg: `Input should be '${kind.toLowerCase()}'`,
      input: role,
      ctx: { expected: `'${kind.toLowerCase()}'` },
    }));
  }
  const empty = content === null && role !== "assistant";
  if (!empty && (content === undefined || content === null || typeof content === "string" || Array.isArray(content)))
    return [];
  return KINDS.map((kind) => ({
    type: "string_type",
    loc: at(kind, "content"),
    msg: "Input should be a valid string",
    input: content,
  }));
}

function checkFormat(format: unknown): readonly Finding[] {
  if (typeof format !== "object" || format === null) return [];
  const { type } = format as Body;
  if (["text", "json_object", "json_schema", "structural_tag"].includes(String(type))) return [];
  const expected = "'text', 'json_object' or 'json_schema'";
  return [
    {
      type: "literal_error",
      loc: ["body", "response_format", "type"],
      msg: `Input should be ${expected}`,
      input: type,
      ctx: { expected },
    },
  ];
}

function checkChat(body: Body): Answer | undefined {
  if (body["messages"] === null) return bad("'NoneType' object is not iterable");
  const { logprobs, top_logprobs: top, tools, tool_choice: choice } = body;
  const streams = checkStreamOptions(body) ?? checkSalt(body);
  if (streams !== undefined) return streams;
  if (typeof top === "number" && logprobs !== true) {
    return wrong("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.");
  }
  if (typeof top === "number") {
    const refused = checkLogprobs(top);
    if (refused !== undefined) return refused;
  }
  const format = body["response_format"] as Body | null | undefined;
  if (format?.["type"] === "json_schema" && format["json_schema"] === undefined) {
    return wrong(
      "response_format",
      "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
    );
  }
  const refused = checkToolChoice(tools, choice);
  if (refused !== undefined) return refused;
  if ((body["messages"] as readonly unknown[]).length === 0) {
    return bad("Cannot apply chat template to an empty conversation. Provide at least one message.");
  }
  return checkParts(body["messages"] as readonly Body[]);
}

function checkToolChoice(tools: unknown, choice: unknown): Answer | undefined {
  if (choice === undefined || choice === null || choice === "none") return undefined;
  if (!Array.isArray(tools)) return wrong("tool_choice", "When using `tool_choice`, `tools` must be set.");
  if (typeof choice === "string") {
    if (choice === "auto" || choice === "required") return undefined;
    const known = 'Only named tools, "none", "auto" or "required" are supported.';
    return wrong("tool_choice", `Invalid value for \`tool_choice\`: ${choice}! ${known}`);
  }
  const wanted = ((choice as Body)["function"] as Body | undefined)?.["name"];
  const names = (tools as readonly Body[]).map((tool) => (tool["function"] as Body | undefined)?.["name"]);
  if (names.includes(wanted)) return undefined;
  return wrong("tool_choice", "The tool specified in `tool_choice` does not match any of the specified `tools`");
}

const PART_TYPES = ["text", "image_url", "input_audio", "audio_url", "video_url", "refusal", "thinking", "file"];

function checkParts(messages: readonly Body[]): Answer | undefined {
  for (const { content } of messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content as readonly Body[]) {
      if (PART_TYPES.includes(String(part["type"])) && (part["type"] !== "text" || "text" in part)) continue;
      return bad(
        `7 validation errors for ValidatorIterator\n0.ChatCompletionContentPartTextParam.type\n  ${JSON.stringify(part)}`,
      );
    }
  }
  return undefined;
}

function checkCompletion(body: Body): Answer | undefined {
  const { prompt, logprobs, suffix } = body;
  const streams = checkStreamOptions(body);
  if (streams !== undefined) return streams;
  if (prompt === undefined || prompt === null || prompt === "") {
    return wrong("prompt", "Either prompt or prompt_embeds must be provided and non-empty.");
  }
  const findings = checkPrompt(prompt);
  if (findings.length > 0) return malformed(findings);
  if (Array.isArray(prompt) && prompt.length === 0) return bad("You must pass at least one prompt");
  if (typeof suffix === "string" && suffix !== "") {
    return bad("suffix is only supported for models with FIM completion rendering", "suffix");
  }
  if (typeof logprobs === "number") {
    const refused = checkLogprobs(logprobs);
    if (refused !== undefined) return refused;
  }
  const outside = (Array.isArray(prompt) ? prompt.flat() : []).find((id) => typeof id === "number" && id >= VOCABULARY);
  return outside === undefined ? undefined : bad(`Token id ${outside} is out of vocabulary`);
}

/** Lists of ids, lists of lists, a text, a list of texts: what each of them misses. */
function checkPrompt(prompt: unknown): readonly Finding[] {
  if (typeof prompt === "string") return [];
  if (!Array.isArray(prompt)) {
    const list: Finding = {
      type: "list_type",
      loc: ["body", "prompt"],
      msg: "Input should be a valid list",
      input: prompt,
    };
    const text: Finding = { ...list, type: "string_type", msg: "Input should be a valid string" };
    return [list, list, text, list];
  }
  const at = (i: number, type: string, msg: string, ctx?: Finding["ctx"]): Finding => ({
    type,
    loc: ["body", "prompt", i],
    msg,
    input: prompt[i],
    ...(ctx === undefined ? {} : { ctx }),
  });
  const ids = prompt.every((one) => typeof one === "number" && Number.isInteger(one) && one >= 0);
  const rest = prompt.every((one) => typeof one === "string") || prompt.every((one) => Array.isArray(one));
  if (ids || rest) return [];
  return prompt.flatMap((one, i) => {
    if (typeof one === "number" && one < 0)
      return [at(i, "greater_than_equal", "Input should be greater than or equal to 0", { ge: 0 })];
    if (typeof one === "string")
      return [at(i, "int_parsing", "Input should be a valid integer, unable to parse string as an integer")];
    return [];
  });
}

function checkStreamOptions(body: Body): Answer | undefined {
  if (body["stream_options"] === undefined || body["stream_options"] === null || body["stream"] === true)
    return undefined;
  return wrong("stream_options", "Stream options can only be defined when `stream=True`.");
}

function checkSalt({ cache_salt: salt }: Body): Answer | undefined {
  if (salt !== "") return undefined;
  return wrong("cache_salt", "Parameter 'cache_salt' must be a non-empty string if provided.");
}

function checkLogprobs(asked: number): Answer | undefined {
  const wanted = asked === -1 ? VOCABULARY : asked;
  if (wanted <= MOST_LOGPROBS) return undefined;
  const message = `Requested sample logprobs of ${wanted}, which is greater than max allowed: ${MOST_LOGPROBS}`;
  return wrong("logprobs", message, String(wanted));
}

const float = (value: number): string => (Number.isInteger(value) ? value.toFixed(1) : String(value));

/** The ranges of `SamplingParams`. */
function checkSampling(body: Body): Answer | undefined {
  const number = (name: string): number | undefined => (typeof body[name] === "number" ? body[name] : undefined);
  const [n, temperature, topP, topK] = ["n", "temperature", "top_p", "top_k"].map(number);
  if (n !== undefined && n < 1) return bad(`n must be at least 1, got ${n}.`);
  for (const name of ["presence_penalty", "frequency_penalty"]) {
    const value = number(name);
    if (value !== undefined && Math.abs(value) > 2) return bad(`${name} must be in [-2, 2], got ${float(value)}.`);
  }
  if (temperature !== undefined && (temperature < 0 || temperature > 2)) {
    const rule = temperature < 0 ? "must be non-negative" : "must be in [0, 2]";
    return wrong("temperature", `temperature ${rule}, got ${float(temperature)}.`, float(temperature));
  }
  if (topP !== undefined && !(topP > 0 && topP <= 1)) {
    return wrong("top_p", `top_p must be in (0, 1], got ${float(topP)}.`, float(topP));
  }
  if (topK !== undefined && topK < -1) return bad(`top_k must be 0 (disable), or at least 1, got ${topK}.`);
  const limit = number("max_completion_tokens") ?? number("max_tokens");
  const least = number("min_tokens");
  if (limit !== undefined && least !== undefined && least > limit) {
    return bad(`min_tokens must be less than or equal to max_tokens=${limit}, got ${least}.`);
  }
  return undefined;
}
