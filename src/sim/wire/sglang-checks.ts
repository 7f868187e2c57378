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
  // orjson's words for a text that breaks off.
  const error = "unexpected end of data";
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
  if (value === null) {
    return sglangMalformed([{ type: "missing", loc: ["body"], msg: "Field required", input: null }], path);
  }
  // Its validators stumble over what is no object.
  if (typeof value !== "object" || Array.isArray(value)) return STUMBLED;
  const body = value as Body;
  if (body["messages"] === null && kind === "chat") {
    return sglangMalformed(
      [{ type: "list_type", loc: ["body", "messages"], msg: "Input should be a valid list", input: null }],
      path,
    );
  }
  const needed = kind === "chat" ? "messages" : "prompt";
  if (body[needed] === undefined) return sglangMalformed([missing(needed, withChoice(kind, body))], path);
  if (kind === "chat" && typeof body["response_format"] === "string") return STUMBLED;
  const findings = [
    ...typeFindings(checkTypes(body, TYPES[kind])),
    ...(kind === "chat" ? checkShapes(body) : checkLeast(body)),
  ];
  if (findings.length > 0) return sglangMalformed(findings, path);
  const meant = coerced(body, TYPES[kind]);
  return (kind === "chat" ? checkChat(meant) : checkPrompt(meant)) ?? checkSampling(meant) ?? { ok: meant };
}

/** A chat without tools gets this before it is checked. */
const withChoice = (kind: "chat" | "completion", body: Body): Body =>
  kind === "chat" && body["tools"] === undefined && body["tool_choice"] === undefined
    ? { ...body, tool_choice: "none" }
    : body;

/** What its handler answers when it fails itself. */
const STUMBLED: Answer = { status: 500, body: {}, text: "Internal Server Error" };

/** In unions each alternative is named, lists first. */
function typeFindings(findings: readonly Finding[]): readonly Finding[] {
  const named = findings.map((finding): Finding => {
    if (finding.loc[1] !== "stop") return finding;
    const listed = finding.type === "list_type" || finding.loc.length > 2;
    return { ...finding, loc: ["body", "stop", listed ? "list[str]" : "str", ...finding.loc.slice(2)] };
  });
  return named.toSorted((a, b) => Number(a.loc[2] === "str") - Number(b.loc[2] === "str"));
}

const ROLES = ["system", "assistant", "tool", "function", "developer", "latest_reminder", "root", "user"];
const GENERIC = "function-after[validate_thinking_parts_role(), ChatCompletionMessageGenericParam]";

/** Messages, tools and formats: the first finding of the alternatives that pydantic tries. */
function checkShapes(body: Body): readonly Finding[] {
  const messages = Array.isArray(body["messages"]) ? (body["messages"] as readonly unknown[]) : [];
  const tools = Array.isArray(body["tools"]) ? (body["tools"] as readonly Body[]) : [];
  const nameless = tools.flatMap((tool, i): Finding[] =>
    tool["function"] === undefined
      ? [{ type: "missing", loc: ["body", "tools", i, "function"], msg: "Field required", input: tool }]
      : [],
  );
  return [...messages.flatMap(checkMessage), ...nameless, ...checkFormat(body), ...checkChoice(body)];
}

function checkMessage(message: unknown, i: number): readonly Finding[] {
  const loc = ["body", "messages", i, GENERIC];
  if (typeof message !== "object" || message === null) {
    const msg = "Input should be a valid dictionary or object to extract fields from";
    return [{ type: "model_attributes_type", loc, msg, input: message }];
  }
  const { role, content } = message as Body;
  const at = (type: string, name: string, msg: string, input: unknown): readonly Finding[] => [
    { type, loc: [...loc, name], msg, input },
  ];
  if (role === undefined) return at("missing", "role", "Field required", message);
  if (typeof role !== "string") return at("value_error", "role", "Value error, 'role' must be a string", role);
  const unknown = `Value error, 'role' must be one of ${ROLES.slice(0, -1)
    .map((each) => `'${each}'`)
    .join(", ")} (case-insensitive).`;
  if (!ROLES.includes(role.toLowerCase())) return at("value_error", "role", unknown, role);
  if (role !== "user") return [];
  if (content === undefined || content === null || typeof content === "number")
    return at("value_error", "role", unknown, role);
  const parts = Array.isArray(content) ? (content as readonly Body[]) : [];
  const wrong = parts.some(
    (part) => !PART_TYPES.includes(String(part["type"])) || (part["type"] === "text" && part["text"] === undefined),
  );
  return wrong ? at("value_error", "role", unknown, role) : [];
}

const PART_TYPES = ["text", "image_url", "video_url", "audio_url", "input_audio"];

function checkFormat({ response_format: format }: Body): readonly Finding[] {
  const type = (format as Body | null | undefined)?.["type"];
  if (type === undefined || ["text", "json_object", "json_schema", "structural_tag"].includes(String(type))) return [];
  const expected = "'text', 'json_object' or 'json_schema'";
  const loc = ["body", "response_format", "ResponseFormat", "type"];
  return [{ type: "literal_error", loc, msg: `Input should be ${expected}`, input: type, ctx: { expected } }];
}

function checkChoice({ tool_choice: choice }: Body): readonly Finding[] {
  if (typeof choice !== "string" || ["auto", "required", "none"].includes(choice)) return [];
  const msg = "Input should be a valid dictionary or object to extract fields from";
  return [{ type: "model_attributes_type", loc: ["body", "tool_choice", "ToolChoice"], msg, input: choice }];
}

function checkLeast({ max_tokens: limit, prompt }: Body): readonly Finding[] {
  const findings: Finding[] = [];
  if (typeof limit === "number" && limit <= 0) {
    const ctx = { error: new PythonText("ValueError('max_tokens must be positive')") };
    findings.push({
      type: "value_error",
      loc: ["body", "max_tokens"],
      msg: "Value error, max_tokens must be positive",
      input: limit,
      ctx,
    });
  }
  if (typeof prompt === "string" || Array.isArray(prompt)) return findings;
  for (const kind of ["list[int]", "list[list[int]]", "str", "list[str]"]) {
    const type = kind === "str" ? "string" : "list";
    findings.push({
      type: `${type}_type`,
      loc: ["body", "prompt", kind],
      msg: `Input should be a valid ${type}`,
      input: prompt,
    });
  }
  return findings;
}

function checkChat(body: Body): Answer | undefined {
  const format = body["response_format"] as Body | null | undefined;
  if (format?.["type"] === "json_schema" && (format["json_schema"] as Body | undefined)?.["schema"] === undefined) {
    return bad("schema_ is required for json_schema response format request.");
  }
  if (body["return_token_ids"] === true && body["stream"] === true) {
    const message =
      "return_token_ids is not supported with streaming on /v1/chat/completions. Please set stream=false when using return_token_ids=true.";
    return { status: 400, body: sglangError(400, "BadRequest", message) };
  }
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

const float = (value: number): string => (Number.isInteger(value) ? value.toFixed(1) : String(value));

/** The ranges of `SamplingParams.verify()`. */
function checkSampling(body: Body): Answer | undefined {
  const number = (name: string): number | undefined => (typeof body[name] === "number" ? body[name] : undefined);
  const [temperature, topP, topK, n] = ["temperature", "top_p", "top_k", "n"].map(number);
  if (n === 0) return { status: 400, body: sglangError(400, "BadRequest", "range() arg 3 must not be zero") };
  if (temperature !== undefined && temperature < 0) {
    return bad(`temperature must be a non-negative finite number, got ${float(temperature)}.`);
  }
  if (topP !== undefined && !(topP > 0 && topP <= 1)) return bad(`top_p must be in (0, 1], got ${float(topP)}.`);
  if (topK !== undefined && topK < -1) return bad(`top_k must be -1 (disable) or at least 1, got ${topK}.`);
  for (const name of ["frequency_penalty", "presence_penalty"]) {
    const value = number(name);
    if (value !== undefined && Math.abs(value) > 2) return bad(`${name} must be in [-2, 2], got ${float(value)}.`);
  }
  const limit = number("max_completion_tokens") ?? number("max_tokens");
  if (limit !== undefined && limit < 0) return bad(`max_new_tokens must be at least 0, got ${limit}.`);
  const least = number("min_tokens");
  if (least !== undefined && (least < 0 || (limit !== undefined && least > limit))) {
    return bad(`min_new_tokens must be in [0, max_new_tokens(${limit ?? "None"})], got ${least}.`);
  }
  return undefined;
}
