import { expectedWords } from "./soak-text.ts";

/** How one request of the soak ended. `lost`: not as it should; the text says how. */
export type SoakEnd = { readonly type: "ok" | "left" | "hung" } | { readonly type: "lost"; readonly how: string };

const HUNG_MS = 120_000;

/** Ask once: whole, streamed, or streamed and left in the midst, and compare every word of the answer. */
export async function askOnce(
  url: string,
  n: number,
  way: "whole" | "stream" | "leave",
  tokens: number,
): Promise<SoakEnd> {
  const prompt = `${"Tell me of a city. ".repeat(20)}Number ${n}.`;
  const abort = new AbortController();
  let hung = false;
  const timer = setTimeout(() => {
    hung = true;
    abort.abort();
  }, HUNG_MS);
  const body = {
    model: "m",
    messages: [{ role: "user", content: prompt }],
    max_tokens: tokens,
    ...(way === "whole" ? {} : { stream: true, stream_options: { include_usage: true } }),
  };
  try {
    const res = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    if (res.status !== 200) return { type: "lost", how: `${res.status}: ${(await res.text()).slice(0, 300)}` };
    if (way === "leave") {
      await res.body!.getReader().read();
      abort.abort();
      return { type: "left" };
    }
    const wanted = expectedWords(prompt, tokens).join(" ");
    const text = await res.text();
    const how = way === "whole" ? wholeProblem(text, wanted) : streamProblem(text, wanted, tokens);
    return how === undefined ? { type: "ok" } : { type: "lost", how };
  } catch (e) {
    return hung ? { type: "hung" } : { type: "lost", how: e instanceof Error ? `${e.message} ${e.cause}` : String(e) };
  } finally {
    clearTimeout(timer);
  }
}

function wholeProblem(text: string, wanted: string): string | undefined {
  const got = (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]?.message.content;
  return got === wanted ? undefined : `another text: ${got?.slice(0, 100)}`;
}

interface Chunk {
  readonly error?: unknown;
  readonly choices: readonly { readonly delta: { readonly content?: string }; readonly finish_reason: string | null }[];
  readonly usage?: { readonly completion_tokens: number };
}

function streamProblem(text: string, wanted: string, tokens: number): string | undefined {
  const events = text.trimEnd().split("\n\n");
  if (events.at(-1) !== "data: [DONE]") return `it ends with ${events.at(-1)?.slice(0, 300)}`;
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice("data: ".length)) as Chunk);
  const got = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  if (got !== wanted) return `another text, ${got.length} instead of ${wanted.length} characters`;
  if (!chunks.some(({ choices }) => choices[0]?.finish_reason === "length")) return "no finish";
  const usage = chunks.at(-1)?.usage;
  return usage?.completion_tokens === tokens ? undefined : `usage ${JSON.stringify(usage)}`;
}
