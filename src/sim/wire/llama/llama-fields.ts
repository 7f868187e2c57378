import { LlamaRefusal, typeError } from "./llama-errors.ts";

type Body = Readonly<Record<string, unknown>>;

const NUMBERS = [
  "max_tokens",
  "max_completion_tokens",
  "n_predict",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "typical_p",
  "n",
  "seed",
  "presence_penalty",
  "frequency_penalty",
  "repeat_penalty",
  "repeat_last_n",
  "n_probs",
  "n_keep",
  "id_slot",
];
const BOOLEANS = ["stream", "cache_prompt", "ignore_eos", "return_tokens", "timings_per_token", "return_progress"];
const MOST = 2_147_483_647;

/**
 * Check the members that have a type, as `params_from_json_cmpl` does (llama.cpp tools/server, xllamacpp 2026.10).
 * @throws LlamaRefusal
 */
export function checkFields(body: Body, slots: number): void {
  for (const name of NUMBERS) {
    const value = body[name];
    if (value !== undefined && value !== null && typeof value !== "number")
      throw wrong(name, typeError("number", value));
  }
  for (const name of BOOLEANS) {
    const value = body[name];
    if (value !== undefined && value !== null && typeof value !== "boolean")
      throw wrong(name, typeError("boolean", value));
  }
  const { logprobs, stop } = body;
  if (typeof logprobs === "string") throw wrong("logprobs", typeError("number", logprobs));
  if (Array.isArray(stop)) {
    for (const text of stop) if (typeof text !== "string") throw wrong("stop", typeError("string", text));
  }
  for (const name of ["max_tokens", "max_completion_tokens", "n_predict"]) within(body, name, -1, MOST);
  within(body, "n", 1, slots);
}

function within(body: Body, name: string, least: number, most: number): void {
  const value = body[name];
  if (typeof value !== "number" || (value >= least && value <= most)) return;
  throw wrong(name, `Value must be between ${least} <= value <= ${most}, but got ${Math.trunc(value)}`);
}

const wrong = (name: string, why: string): LlamaRefusal => new LlamaRefusal(400, `Field '${name}': ${why}`);

/**
 * Check a chat's messages, tools and formats, in the order in which `oaicompat_chat_params_parse` looks at them.
 * @throws LlamaRefusal
 */
export function checkChat(body: unknown): asserts body is Body {
  const messages = typeof body === "object" && body !== null && "messages" in body ? body.messages : undefined;
  if (messages === undefined) throw new LlamaRefusal(400, "'messages' is required");
  if (!Array.isArray(messages)) throw new LlamaRefusal(400, "Expected 'messages' to be an array");
  const chat = body as Body;
  checkTools(chat);
  for (const message of messages as readonly unknown[]) checkMessage(message);
  checkFormat(chat);
  if (chat["top_logprobs"] !== undefined && chat["logprobs"] !== true) {
    throw new LlamaRefusal(400, "top_logprobs requires logprobs to be set to true");
  }
  for (const message of messages as readonly Body[]) parseMessage(message);
}

function checkMessage(message: unknown): void {
  const fields = typeof message === "object" && message !== null ? (message as Body) : {};
  if (fields["role"] !== "assistant" && !("content" in fields)) {
    throw new LlamaRefusal(400, "All non-assistant messages must contain 'content'");
  }
  const { content } = fields;
  if (content === undefined || content === null || typeof content === "string") return;
  if (!Array.isArray(content)) throw new LlamaRefusal(400, "Expected 'content' to be a string or an array");
  for (const part of content as readonly Body[]) {
    if (part["type"] !== "text" && part["type"] !== "image_url" && part["type"] !== "input_audio") {
      throw new LlamaRefusal(400, "unsupported content[].type");
    }
    if (part["type"] === "image_url") {
      throw new LlamaRefusal(
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
      );
    }
  }
}

/** What is only found when messages are made ready for the template. */
function parseMessage(message: Body): void {
  const fail = (why: string): never => {
    throw new LlamaRefusal(500, `Failed to parse messages: ${why}`);
  };
  if (!("role" in message)) fail(`Missing 'role' in message: ${JSON.stringify(message)}`);
  if (typeof message["role"] !== "string") fail(typeError("string", message["role"]));
  if (!Array.isArray(message["content"])) return;
  for (const part of message["content"] as readonly Body[]) {
    if (!("text" in part)) fail("[json.exception.out_of_range.403] key 'text' not found");
  }
}

function checkTools({ tools, tool_choice: choice }: Body): void {
  if (typeof choice === "string" && !["auto", "none", "required"].includes(choice)) {
    throw new LlamaRefusal(400, `Invalid tool_choice: ${choice}`);
  }
  if (tools === undefined || tools === null) return;
  const fail = (why: string): never => {
    throw new LlamaRefusal(500, `Failed to parse tools: ${why}; tools = ${JSON.stringify(tools, null, 2)}`);
  };
  if (!Array.isArray(tools)) fail(`Expected 'tools' to be an array, got ${JSON.stringify(tools)}`);
  for (const tool of tools as readonly Body[]) {
    if (tool["function"] === undefined) fail(`Missing tool function: ${JSON.stringify(tool)}`);
  }
}

function checkFormat({ response_format: format }: Body): void {
  if (typeof format !== "object" || format === null) return;
  const type = (format as Body)["type"];
  if (type === undefined || ["", "text", "json_object", "json_schema"].includes(String(type))) return;
  throw new LlamaRefusal(400, `response_format type must be one of "text" or "json_object", but got: ${String(type)}`);
}
