/**
 * Beginnings of tales, to be gone on with: some 100 tokens each, several KV blocks, different from the first block on, so
 * that each has a continuation of its own.
 */
export function prompts(count: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const of = (list: readonly string[]): string => list[i % list.length] ?? "";
    const [who, place, thing, weather] = [of(PEOPLE), of(PLACES), of(THINGS), of(WEATHER)];
    return (
      `Chapter ${i + 1}. It was a ${weather} morning in the ${place}, and ${who} had been awake since four o'clock. ` +
      `On the table lay a ${thing} that nobody in the family had ever seen before. "Do not touch it," said ${who}'s sister, ` +
      `who had read about such things in the newspaper of the ${place}. But ${who} was not afraid of a ${thing}. ` +
      `"If it came here by itself," ${who} answered, "then it wants to tell us something about the ${weather} sea." ` +
      `So ${who} lifted the ${thing} into the light of the window and saw that on the other side of it`
    );
  });
}

const PEOPLE = [
  "Marta",
  "Jonas",
  "Old Peter",
  "Lucy",
  "Captain Bell",
  "Anna",
  "the baker",
  "Thomas",
  "Mrs. Green",
  "Ivan",
  "Nora",
];
const PLACES = ["harbour", "mountain village", "castle", "railway town", "theatre", "garden", "desert camp"];
const THINGS = ["lantern", "carpet", "compass", "letter", "violin", "kettle", "mirror", "ladder", "basket"];
const WEATHER = ["grey", "warm", "stormy", "cold", "bright"];

/** @throws Error where most texts are alike, which would make their equality say nothing */
export function requireVariety(texts: readonly string[]): void {
  const different = new Set(texts).size;
  if (different * 2 < texts.length) throw new Error(`only ${different} of ${texts.length} texts differ`);
}

export const MAX_TOKENS = 20;

/** A greedy completion of an engine, with what is added to the body. @throws Error for anything but 200 */
export async function complete(url: string, prompt: string, more: object = {}, id?: string): Promise<Completion> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(id === undefined ? {} : { "x-request-id": id }) },
    body: JSON.stringify({
      model: "smollm2",
      prompt,
      max_tokens: MAX_TOKENS,
      temperature: 0,
      ignore_eos: true,
      ...more,
    }),
    signal: AbortSignal.timeout(180_000),
  });
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`${url} answered ${reply.status}: ${text.slice(0, 300)}`);
  return JSON.parse(text) as Completion;
}

export interface Completion {
  readonly choices: readonly { readonly text: string }[];
  readonly kv_transfer_params?: Record<string, unknown> | null;
  readonly usage: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  };
}

export const textOf = (completion: Completion): string => completion.choices[0]?.text ?? "";

/** One chat, streamed or not is the engine's affair. @throws Error for anything but 200 with words */
export async function chat(url: string, model: string): Promise<string> {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model,
      max_tokens: 12,
      temperature: 0,
      messages: [{ role: "user", content: "What is the capital of France?" }],
    }),
    signal: AbortSignal.timeout(180_000),
  });
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`${url} answered ${reply.status}: ${text.slice(0, 300)}`);
  const said = (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]?.message.content ?? "";
  if (said.trim() === "") throw new Error(`${url} answered without words: ${text.slice(0, 300)}`);
  return said.trim();
}

/** The sum of a metric's samples whose labels contain `label`. */
export async function metric(url: string, name: string, label = ""): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text
    .split("\n")
    .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(label))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}
