/**
 * What an engine makes of a chat's messages before its template sees them, and around it. A template alone does not decide
 * the prompt.
 */
export interface ChatDialect {
  /**
   * How contents reach a template. `text`: joined to one text, for every template. `parts`: as a list of parts, for every
   * template. `wrapped`: as a list for templates that walk over parts, plain texts too; those of tools stay texts. Default:
   * lists stay lists for templates that walk over parts, and texts stay texts.
   */
  readonly contents?: "text" | "parts" | "wrapped";
  /** Tool calls' `arguments` stay the JSON text that they are on the wire. */
  readonly textArguments?: boolean;
  /** The role `developer` becomes `system`. */
  readonly developerIsSystem?: boolean;
  /**
   * What becomes of a last message that is the assistant's. `kept`: the template renders it as any other, and the assistant's
   * next turn begins (transformers' `apply_chat_template`). `continued`: the answer goes on where it ends. `user`: it is
   * rendered as the user's.
   */
  readonly lastAssistant: "kept" | "continued" | "user";
}

/** As transformers' `apply_chat_template` has it; vLLM and MLX hand roles on as they come. */
export const PLAIN_DIALECT: ChatDialect = { lastAssistant: "kept" };
