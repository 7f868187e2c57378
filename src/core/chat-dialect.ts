import type { ChatRequest, Json, Prepared } from "./chat-request.ts";

/** What of a model's template decides how an engine prepares a request for it. */
export interface TemplateFacts {
  /** Jinja. */
  readonly template: string;
  /** Does the template raise an error for these messages, given nothing else (no date, no special tokens)? So engines try templates. */
  refuses(messages: readonly Json[]): boolean;
  /** What a chat of one word becomes with this `reasoning_effort`; undefined where the template refuses it. */
  promptFor(reasoningEffort: string): string | undefined;
  /** Local time in Python's `strftime` format; undefined where nobody tells the time. */
  readonly now: ((format: string) => string) | undefined;
}

/**
 * What an engine makes of a chat's messages before its template sees them, and around it. A template alone does not decide
 * the prompt.
 */
export interface ChatDialect {
  /**
   * How contents reach a template. `text`: joined to one text, for every template. `parts`: as a list of parts, for every
   * template. `given`: as they come, for every template. `wrapped`: as a list for templates that walk over parts, plain texts too; those of tools stay texts. Default:
   * lists stay lists for templates that walk over parts, and texts stay texts.
   */
  readonly contents?: "text" | "parts" | "given" | "wrapped";
  /** Tool calls' `arguments` stay the JSON text that they are on the wire. */
  readonly textArguments?: boolean;
  /**
   * What becomes of a last message that is the assistant's. `kept`: the template renders it as any other, and the assistant's
   * next turn begins (transformers' `apply_chat_template`). `continued`: the answer goes on where it ends. `user`: it is
   * rendered as the user's.
   */
  readonly lastAssistant: "kept" | "continued" | "user";
  /**
   * Rewrites a chat request to what the engine hands to its template: members that it drops, adds or spells anew. Contents are
   * joined or wrapped after it.
   */
  readonly prepare?: (request: ChatRequest, facts: TemplateFacts) => Prepared<ChatRequest>;
  /** White space that templates trim is ASCII's only. Default: all that is white space for Python. */
  readonly asciiBlanks?: boolean;
  /** Texts in contents that `prepare` looks for. */
  readonly watched?: readonly string[];
  /** Makes a chat request of a body of Anthropic's `/v1/messages`, as the engine does. */
  readonly fromMessages?: (body: Json, facts: TemplateFacts) => Prepared<ChatRequest>;
  /** Makes a chat request of a body of `/v1/responses`, as the engine does. */
  readonly fromResponses?: (body: Json, facts: TemplateFacts) => Prepared<ChatRequest>;
}

/** As transformers' `apply_chat_template` has it; vLLM and MLX hand roles on as they come. */
export const PLAIN_DIALECT: ChatDialect = { lastAssistant: "kept" };
