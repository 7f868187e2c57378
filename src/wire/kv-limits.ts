/** The longest prompt that is looked up: about a million tokens, more than engines serve. A longer one holds up every other call. */
export const MAX_PROMPT_BYTES = 4 * 1024 * 1024;
/** The same in token ids. */
export const MAX_PROMPT_TOKENS = 1024 * 1024;
/** Body of a call: a prompt of `MAX_PROMPT_BYTES` in base64, or of `MAX_PROMPT_TOKENS` written out, fits. */
export const MAX_CALL_BYTES = 8 * 1024 * 1024;
/** Body of a call that may carry many prompts at once, in binary. */
export const MAX_NOTES_BYTES = 64 * 1024 * 1024;
