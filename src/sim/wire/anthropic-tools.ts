import type { TemplateFacts } from "../../core/chat-dialect.ts";
import { fieldsOf } from "../../engines/probe-text.ts";
import { findEngine } from "../../engines/registry.ts";

type Body = Readonly<Record<string, unknown>>;

const CHOICES: Readonly<Record<string, string>> = { auto: "auto", any: "required", none: "none" };

/**
 * Tools and the choice among them of a `/v1/messages` body in the form of a chat, as engines make them before anything is checked (vLLM 0.32.0,
 * SGLang 0.5.23). What is no tool of that form stays as it is.
 */
export function withChatTools({ tools, tool_choice: choice, ...rest }: Body): Body {
  const { type, name } = fieldsOf(choice);
  const chosen = type === "tool" ? { type: "function", function: { name } } : CHOICES[String(type)];
  return {
    ...rest,
    ...(tools === undefined ? {} : { tools: Array.isArray(tools) ? tools.map(chatTool) : tools }),
    ...(chosen === undefined ? {} : { tool_choice: chosen }),
  };
}

function chatTool(tool: unknown): unknown {
  const { name, description, input_schema: parameters } = fieldsOf(tool);
  if (parameters === undefined) return tool;
  return { type: "function", function: { name, ...(description === undefined ? {} : { description }), parameters } };
}

/** The simulated engines' template takes a system message anywhere. */
const FACTS: TemplateFacts = { template: "", refuses: () => false, promptFor: () => undefined, now: undefined };

/**
 * Messages with calls of tools and their results in the form of a chat, as vLLM makes them; undefined where there are none, and the messages
 * may stay as they are.
 */
export function chatMessages(body: Body): readonly Body[] | undefined {
  const { messages } = body;
  const hasTools = (Array.isArray(messages) ? messages : []).some((message) => {
    const { content } = fieldsOf(message);
    return (
      Array.isArray(content) && content.some((block) => /^tool_(use|result)$/.test(String(fieldsOf(block)["type"])))
    );
  });
  const made = hasTools ? findEngine("vllm").chat?.fromMessages?.(body as never, FACTS) : undefined;
  if (made === undefined || "reason" in made) return undefined;
  return (made.value.messages as readonly Body[]).map(asSent);
}

/** On the wire arguments are a text. */
function asSent({ tool_calls: calls, ...message }: Body): Body {
  if (!Array.isArray(calls)) return message;
  const sent = calls.map((call) => {
    const { function: of, ...rest } = fieldsOf(call);
    const { name, arguments: given } = fieldsOf(of);
    return { ...rest, function: { name, arguments: JSON.stringify(given ?? {}) } };
  });
  return { ...message, tool_calls: sent };
}
