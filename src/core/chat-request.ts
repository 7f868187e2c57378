/** The fields of a chat completion request that decide its prompt; others are ignored. */
export interface ChatRequest {
  readonly messages?: unknown;
  readonly tools?: unknown;
  readonly documents?: unknown;
  /** Default true, or false with `continue_final_message`. */
  readonly add_generation_prompt?: unknown;
  readonly continue_final_message?: unknown;
  readonly chat_template_kwargs?: unknown;
  /** How much the model is to think: `none`, `low`, `medium`, `high`. */
  readonly reasoning_effort?: unknown;
  /** A template of the request's own: not rendered. */
  readonly chat_template?: unknown;
}

/** A value as a template wants it, or why there is none. */
export type Prepared<T> = { readonly value: T } | { readonly reason: string };

/** An object of a request, as JSON has it. */
export type Json = Readonly<Record<string, unknown>>;

/** Is it an object, as JSON has it? */
export function isJsonObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
