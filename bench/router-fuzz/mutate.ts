import type { Dice } from "./dice.ts";

/** Text that parsers stumble over. */
const NASTY: readonly string[] = [
  "\r\n",
  "\n\n",
  "\0",
  "\u00ff\u00fe",
  "\r\n\r\n",
  "data: ",
  "data:[DONE]\n\n",
  ": ",
  "{",
  "}",
  "[[[[",
  '"',
  "\\u0000",
  "\\ud800",
  "1e999",
  "-0",
  "NaN",
  "null",
  "%ff",
  "..//",
  "content-length: 5\r\n",
  "transfer-encoding: chunked\r\n",
  "0\r\n\r\n",
  "ffffffffffffffff\r\n",
  "HTTP/1.1 200 OK\r\n",
  "🙂",
  "a".repeat(300),
];

/** Change some bytes: flipped, cut out, put in, doubled, cut off. Latin-1 text stands for bytes. */
export function mutateBytes(dice: Dice, bytes: string): string {
  let out = bytes;
  for (let n = 1 + dice.below(3); n > 0; n--) {
    const at = dice.below(out.length + 1);
    const kind = dice.roll();
    if (kind < 0.35) out = out.slice(0, at) + String.fromCharCode(dice.below(256)) + out.slice(at + 1);
    else if (kind < 0.5) out = out.slice(0, at) + out.slice(at + 1 + dice.below(20));
    else if (kind < 0.8) out = out.slice(0, at) + dice.of(NASTY) + out.slice(at);
    else if (kind < 0.95) out = out.slice(0, at) + out.slice(at, at + dice.below(80)) + out.slice(at);
    else out = out.slice(0, at);
  }
  return out;
}

const VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  "",
  "x",
  "\u0000",
  "\ud800",
  [],
  [[]],
  [null],
  {},
  { role: 1 },
  { type: "text", text: 7 },
  [{ type: "image_url", image_url: { url: "data:," } }],
  "a".repeat(5_000),
  Array.from({ length: 200 }, () => ({ role: "user", content: "x" })),
];
const KEYS: readonly string[] = [
  "model",
  "messages",
  "prompt",
  "stream",
  "stream_options",
  "n",
  "tools",
  "tool_choice",
  "max_tokens",
  "cache_salt",
  "logprobs",
  "echo",
  "prompt_logprobs",
  "kv_transfer_params",
  "vllm_xargs",
  "chat_template_kwargs",
  "continue_final_message",
  "add_generation_prompt",
  "response_format",
  "input",
  "system",
  "instructions",
  "__proto__",
  "constructor",
  "",
];

/** Change values and members somewhere in a JSON value. */
export function mutateJson(dice: Dice, value: unknown, depth = 0): unknown {
  if (depth > 0 && dice.chance(0.3)) return dice.of(VALUES);
  if (Array.isArray(value)) {
    const out = [...value];
    if (out.length === 0 || dice.chance(0.3)) out.splice(dice.below(out.length + 1), 0, dice.of(VALUES));
    else out[dice.below(out.length)] = mutateJson(dice, dice.of(out), depth + 1);
    return out;
  }
  if (typeof value !== "object" || value === null) return depth === 0 ? value : dice.of(VALUES);
  const entries = Object.entries(value);
  if (entries.length === 0 || dice.chance(0.4))
    return Object.fromEntries([...entries, [dice.of(KEYS), dice.of(VALUES)]]);
  const at = dice.below(entries.length);
  if (dice.chance(0.15)) entries.splice(at, 1);
  else entries[at] = [entries[at]![0], mutateJson(dice, entries[at]![1], depth + 1)];
  return Object.fromEntries(entries);
}
