import type { PairRequest } from "./requests.ts";

/** What an answer says, whole or put together from its stream. */
export interface PairAnswer {
  readonly status: number;
  /** Of each choice: text, tool calls, why it ended. */
  readonly choices: readonly { readonly text: string; readonly calls: string; readonly finish: string }[];
  /** Log probabilities of the chosen tokens and of those beside them, in order, with the tokens as keys. */
  readonly logprobs: readonly (readonly [token: string, logprob: number])[];
  /** `prompt + completion` tokens, where they were told. */
  readonly usage: string;
  /** Words of an error. */
  readonly error?: string;
  /** The answer's headers: who computed the prompt, who answered. */
  readonly prefillNode?: string;
  readonly node?: string;
  readonly id?: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Ask, and read the answer whole. @throws Error when the connection breaks */
export async function askPair(url: string, { path, body }: PairRequest, signal?: AbortSignal): Promise<PairAnswer> {
  const reply = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? AbortSignal.timeout(300_000),
  });
  const header = (name: string): object => {
    const value = reply.headers.get(`x-${name}`);
    return value === null
      ? {}
      : { [name === "request-id" ? "id" : name === "cgn-node" ? "node" : "prefillNode"]: value };
  };
  const head = { status: reply.status, ...header("cgn-node"), ...header("cgn-prefill-node"), ...header("request-id") };
  const text = await reply.text();
  if (reply.status !== 200) return { ...head, choices: [], logprobs: [], usage: "", error: text.slice(0, 400) };
  const bodies = body["stream"] === true ? eventsOf(text) : [JSON.parse(text) as Json];
  const failed = bodies.find((each) => each["error"] !== undefined);
  const unfinished = body["stream"] === true && !text.includes("data: [DONE]");
  const error =
    failed === undefined ? (unfinished ? "the stream has no end" : undefined) : JSON.stringify(failed["error"]);
  return { ...head, ...merged(bodies), ...(error === undefined ? {} : { error }) };
}

function eventsOf(text: string): Json[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: ") && line !== "data: [DONE]")
    .map((line) => JSON.parse(line.slice(6)) as Json);
}

interface Growing {
  text: string;
  finish: string;
  readonly calls: { name: string; words: string }[];
}

interface ToolCall {
  readonly index?: number;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}

interface Message {
  readonly content?: string | null;
  readonly tool_calls?: readonly ToolCall[] | null;
}

interface Choice {
  readonly index?: number;
  readonly text?: string;
  readonly message?: Message;
  readonly delta?: Message;
  readonly finish_reason?: string | null;
  readonly logprobs?: Json | null;
}

function merged(bodies: readonly Json[]): Pick<PairAnswer, "choices" | "logprobs" | "usage"> {
  const choices = new Map<number, Growing>();
  const logprobs: (readonly [string, number])[] = [];
  let usage = "";
  for (const body of bodies) {
    const told = body["usage"] as { prompt_tokens?: number; completion_tokens?: number } | null | undefined;
    if (told) usage = `${told.prompt_tokens} + ${told.completion_tokens}`;
    for (const choice of (body["choices"] ?? []) as readonly Choice[]) {
      const { index = 0, text = "", message, delta, finish_reason: finish } = choice;
      const own = choices.get(index) ?? { text: "", finish: "", calls: [] };
      choices.set(index, own);
      const said = message ?? delta;
      own.text += text + (said?.content ?? "");
      own.finish = finish ?? own.finish;
      for (const [n, call] of (said?.tool_calls ?? []).entries()) {
        const growing = (own.calls[call.index ?? n] ??= { name: "", words: "" });
        growing.name += call.function?.name ?? "";
        growing.words += call.function?.arguments ?? "";
      }
      if (choice.logprobs) logprobs.push(...logprobsOf(choice.logprobs));
    }
  }
  return {
    choices: [...choices]
      .sort(([a], [b]) => a - b)
      .map(([, { calls, ...own }]) => ({ ...own, calls: JSON.stringify(calls) })),
    logprobs,
    usage,
  };
}

/** Those of a chat (`content`) or of a completion (`tokens`); the tokens beside a chosen one sorted by their text. */
function logprobsOf(from: Json): (readonly [string, number])[] {
  const content = from["content"] as
    | readonly { token: string; logprob: number; top_logprobs: { token: string; logprob: number }[] }[]
    | null
    | undefined;
  const sorted = (beside: readonly (readonly [string, number])[]) => [...beside].sort(([a], [b]) => (a < b ? -1 : 1));
  if (content) {
    return content.flatMap(({ token, logprob, top_logprobs: top }) => [
      [token, logprob] as const,
      ...sorted(top.map((each) => [each.token, each.logprob] as const)),
    ]);
  }
  const tokens = (from["tokens"] ?? []) as readonly string[];
  const values = (from["token_logprobs"] ?? []) as readonly number[];
  const tops = (from["top_logprobs"] ?? []) as readonly (Readonly<Record<string, number>> | null)[];
  return tokens.flatMap((token, n) => [
    [token, values[n] ?? Number.NaN] as const,
    ...sorted(Object.entries(tops[n] ?? {})),
  ]);
}

/**
 * In what an answer differs from another one; undefined: in nothing.
 * @param tolerance of log probabilities: sums in another order differ in their last digits
 */
export function difference(is: PairAnswer, should: PairAnswer, tolerance: number): string | undefined {
  if (is.status !== should.status || is.error !== should.error) {
    return `${is.status} ${is.error ?? ""} in place of ${should.status} ${should.error ?? ""}`;
  }
  for (const part of ["choices", "usage"] as const) {
    const [a, b] = [JSON.stringify(is[part]), JSON.stringify(should[part])];
    if (a !== b) return `${part} ${a} in place of ${b}`;
  }
  if (is.logprobs.length !== should.logprobs.length) {
    return `${is.logprobs.length} log probabilities in place of ${should.logprobs.length}`;
  }
  for (const [n, [token, value]] of is.logprobs.entries()) {
    const [token2, value2] = should.logprobs[n]!;
    if (token !== token2) return `log probability of ${JSON.stringify(token)} in place of ${JSON.stringify(token2)}`;
    if (!(Math.abs(value - value2) <= tolerance))
      return `log probability of ${JSON.stringify(token)} ${value} in place of ${value2}`;
  }
  return undefined;
}

/** The largest distance between log probabilities of the same place. */
export function logprobDistance(is: PairAnswer, should: PairAnswer): number {
  return Math.max(0, ...is.logprobs.map(([, value], n) => Math.abs(value - (should.logprobs[n]?.[1] ?? Number.NaN))));
}
