/** How an engine is asked for the log probability of each token that it generates, and no others: members of the body, as JSON text. */
export interface TokenLogprobs {
  readonly chat: Readonly<Record<string, string>>;
  readonly completion: Readonly<Record<string, string>>;
  /** Its streams have them too. */
  readonly streams: boolean;
  /** And those of chats with tools. */
  readonly toolStreams: boolean;
  /** The member `logprobs` of a choice when nobody asked: null, or not there. */
  readonly unasked: { readonly chat: "null" | "absent"; readonly completion: "null" | "absent" };
}

/** OpenAI's own form (its API reference, "Create chat completion", "Create completion"). */
export const OPENAI_LOGPROBS: TokenLogprobs = {
  chat: { logprobs: "true" },
  completion: { logprobs: "1" },
  streams: true,
  toolStreams: true,
  unasked: { chat: "null", completion: "null" },
};
