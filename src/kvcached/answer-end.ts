/** Bytes of the prompt's end that are kept: enough to find the last block of the answer before this one again. */
const PROMPT_BYTES = 1024;
const MAX_ANSWER_BYTES = 256 * 1024;

/** The end of a prompt with its answer, as text: what decides about the last tokens of generated blocks. */
export function answerEnd(prompt: Uint8Array, answer: Uint8Array): string {
  const end = prompt.subarray(Math.max(0, prompt.length - PROMPT_BYTES));
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return decoder.decode(end) + decoder.decode(answer.subarray(0, MAX_ANSWER_BYTES));
}
