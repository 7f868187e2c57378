/** One request of the demo and what came of it. Times in ms from the moment it was sent. */
export interface Turn {
  readonly title: string;
  readonly requestId: string;
  readonly node: string;
  readonly predicted: number;
  readonly reported: number | undefined;
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly ttftMs: number;
  readonly totalMs: number;
  readonly answer: string;
}

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Long system prompts, so that a warm prefix is felt: some 400 tokens each. */
const ARCHIVE = [
  "You are the archivist of a small observatory in the mountains. You answer in one or two short sentences.",
  "The observatory has three domes. The north dome holds a refractor from 1911 with a lens of forty centimetres.",
  "The south dome holds a reflector that was rebuilt in 1987 after a storm tore away its roof. The east dome is empty.",
  "Visitors come on Fridays, when the sky is clear, and stay until midnight. In winter the road is closed by snow.",
  "The archive keeps glass plates, night logs and letters. Each plate has a number, a date, an exposure and a name.",
  "Plates one to nine hundred show the northern sky. Plates nine hundred and one to two thousand show comets.",
  "The night logs tell of the weather, of the guests, and of what broke. The letters are sorted by sender and year.",
  "When somebody asks for a plate, give its number first, then the date, then who took it. Do not guess a number.",
  "When somebody asks about the weather, answer from the night logs. When you do not know a thing, say so plainly.",
].join(" ");

const KITCHEN = [
  "You plan the meals of a school kitchen that cooks for two hundred children. You answer in one or two short sentences.",
  "On Mondays there is soup with bread. On Tuesdays there is rice with vegetables. On Wednesdays there is pasta.",
  "On Thursdays there is fish with potatoes. On Fridays the children choose. Fruit is there every day, apples mostly.",
  "Twelve children eat no milk, five eat no eggs, and one must not touch nuts, so nuts never come into the kitchen.",
  "Flour is bought by the sack, oil by the canister, and vegetables come each morning from two farms near the town.",
  "The oven takes six trays. The big pot holds eighty litres, the small one twenty. Three people cook, one washes up.",
  "When somebody asks for a recipe, give amounts for two hundred, round to whole kilograms, and name the pot to use.",
  "When somebody asks for a change of the plan, check the allergies first, then the stock, and then the day.",
].join(" ");

/** What is asked of the router. Temperature 0, so that every run says the same. */
async function ask(
  url: string,
  model: string,
  title: string,
  messages: readonly Message[],
  maxTokens: number,
  signal: AbortSignal,
): Promise<Turn> {
  const started = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model,
      messages,
      temperature: 0,
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
    }),
    signal,
  });
  if (!response.ok || response.body === null)
    throw new Error(`${title}: HTTP ${response.status} ${await response.text()}`);
  const read = await readStream(response.body, () => performance.now() - started);
  const header = (name: string): string => response.headers.get(name) ?? "";
  return {
    title,
    requestId: header("x-request-id"),
    node: header("x-cgn-node"),
    predicted: Number(header("x-cgn-predicted-cached-tokens") || 0),
    reported: read.usage?.prompt_tokens_details?.cached_tokens,
    promptTokens: read.usage?.prompt_tokens,
    completionTokens: read.usage?.completion_tokens,
    ttftMs: read.ttftMs,
    totalMs: performance.now() - started,
    answer: read.answer,
  };
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message?: string };
}

async function readStream(
  body: ReadableStream<Uint8Array>,
  elapsed: () => number,
): Promise<{ answer: string; ttftMs: number; usage: Usage | undefined }> {
  let rest = "";
  let answer = "";
  let ttftMs = Number.NaN;
  let usage: Usage | undefined;
  for await (const text of body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: ") || line.startsWith("data: [DONE]")) continue;
      const chunk = JSON.parse(line.slice(6)) as Chunk;
      if (chunk.error) throw new Error(chunk.error.message ?? "the stream ended with an error");
      const piece = chunk.choices?.[0]?.delta?.content ?? "";
      if (piece !== "" && Number.isNaN(ttftMs)) ttftMs = elapsed();
      answer += piece;
      if (chunk.usage) usage = chunk.usage;
    }
  }
  return { answer, ttftMs: Number.isNaN(ttftMs) ? elapsed() : ttftMs, usage };
}

/**
 * The demo's three requests: a chat's first turn, an unrelated chat while that is in flight, and the chat's second turn.
 * @throws Error with the router's words when one of them fails
 */
export async function runChats(
  url: string,
  model: string,
  signal: AbortSignal,
  later: (ms: number) => Promise<void>,
): Promise<readonly Turn[]> {
  const first: Message[] = [
    { role: "system", content: ARCHIVE },
    { role: "user", content: "Which dome holds the old refractor, and from which year is it?" },
  ];
  const other: Message[] = [
    { role: "system", content: KITCHEN },
    { role: "user", content: "What do we cook on Thursdays?" },
  ];
  const turn1 = ask(url, model, "chat A, turn 1", first, 48, signal);
  // Long enough for the router to have sent turn 1, short enough for it to be still in flight.
  await later(150);
  const chatB = ask(url, model, "chat B, meanwhile", other, 32, signal);
  const [a1, b] = await Promise.all([turn1, chatB]);
  // The person reads the answer first. KV events of its last block need some milliseconds too.
  await later(300);
  const second: Message[] = [
    ...first,
    { role: "assistant", content: a1.answer },
    { role: "user", content: "And which dome is empty?" },
  ];
  const a2 = await ask(url, model, "chat A, turn 2", second, 32, signal);
  return [a1, b, a2];
}
