/** What a run asks: long enough for several KV blocks, different from the first block on. */
export function prompts(count: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const [place = "", thing = ""] = [PLACES[i % PLACES.length], THINGS[i % THINGS.length]];
    return (
      `Note ${i + 1} of the ${place} archive lists every ${thing} that was brought in during the year. ` +
      `The keeper of the ${place} writes the date, the weight, the colour and the owner of each ${thing}, and puts a copy into the ` +
      `box by the door. On the last day of the month the notes are counted, and whoever finds a ${thing} without a note tells the ` +
      `keeper at once. Question: what does the keeper write about each ${thing}? Answer:`
    );
  });
}

const PLACES = ["harbour", "mountain", "castle", "village", "railway", "theatre", "garden"];
const THINGS = ["lantern", "carpet", "compass", "letter", "violin", "kettle", "mirror", "ladder", "basket"];

export const MAX_TOKENS = 24;

/** A greedy completion of an engine, with what is added to the body. @throws Error for anything but 200 */
export async function complete(url: string, prompt: string, more: object = {}, id?: string): Promise<Completion> {
  const reply = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(id === undefined ? {} : { "x-request-id": id }) },
    body: JSON.stringify({ model: "smollm2", prompt, max_tokens: MAX_TOKENS, temperature: 0, ...more }),
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
