import type { WorkerInfo } from "../core/worker.ts";
import { compareParity, PROBE_CHATS, type ProbeChat } from "../prompt/parity.ts";
import type { ModelText } from "./vocabularies.ts";

/** What the parity probe found. `badly`: most chats differ, so that matching by bytes is hopeless. */
export interface ParityFinding {
  /** `unknown: …`, `equal`, or what differs. */
  readonly text: string;
  readonly badly: boolean;
}

/** One answer of the engine is waited for so long; the first failure ends the probe. */
const TIMEOUT_MS = 10_000;

/**
 * Make the probe that proves, for one worker, that the prompts we render are what the engine tokenises: chats go to its
 * `/tokenize`, the ids come back, and their bytes must be the rendered ones. Asks only engines whose traits say that they
 * answer chats there.
 *
 * @param apiKey the key that an engine asks for, where it is known
 */
export function createParityProbe(
  ask: typeof fetch,
  apiKey: (id: WorkerInfo["id"]) => string | undefined = () => undefined,
): (worker: WorkerInfo, text: ModelText) => Promise<ParityFinding> {
  return async (worker, { renderer, vocabulary }) => {
    if (worker.traits.tokenizesChats !== true) return unknown("the engine does not tokenise chats on request");
    if (worker.state === "starting") return unknown("the engine is starting");
    if (renderer === undefined) return unknown("the model has no chat template");
    let asked = 0;
    const differing: string[] = [];
    for (const chat of PROBE_CHATS) {
      const rendered = renderedOf(renderer, chat);
      if (rendered === undefined) continue;
      const ids = await tokensOf(ask, worker, chat, apiKey(worker.id));
      if (typeof ids === "string") {
        if (asked === 0) return unknown(ids);
        // It refused this one chat (tools, an empty text): nothing is proved by it.
        continue;
      }
      asked++;
      const verdict = compareParity(rendered, vocabulary.decode(ids));
      if (!verdict.equal) {
        const { at, rendered: ours, decoded: theirs } = verdict;
        differing.push(
          `"${chat.name}" at byte ${at}: ours ${JSON.stringify(ours)}, the engine's ${JSON.stringify(theirs)}`,
        );
      }
    }
    if (differing.length === 0) return { text: "equal", badly: false };
    const text = `${differing.length} of ${asked} chats differ, first ${differing[0]}`;
    return { text, badly: differing.length * 2 > asked };
  };
}

const unknown = (why: string): ParityFinding => ({ text: `unknown: ${why}`, badly: false });

function renderedOf(renderer: NonNullable<ModelText["renderer"]>, chat: ProbeChat): Uint8Array | undefined {
  try {
    const prompt = renderer.render(chat.request);
    return "bytes" in prompt ? prompt.bytes : undefined;
  } catch {
    // The template refuses this chat, and so does the engine.
    return undefined;
  }
}

function wantsKey(status: number, had: boolean): string {
  const remedy = had
    ? "the key that it was started with is not the one that it wants"
    : "only a cgn that started it knows its API key, so run agent and kvcached in one process (cgn up), or let /tokenize be open";
  return `its /tokenize answers ${status}: ${remedy}`;
}

/** The engine's token ids of a chat, or why there are none. */
async function tokensOf(
  ask: typeof fetch,
  worker: WorkerInfo,
  chat: ProbeChat,
  apiKey: string | undefined,
): Promise<readonly number[] | string> {
  const model = worker.upstreamModel ?? worker.models[0] ?? "";
  try {
    const reply = await ask(`${worker.url}/tokenize`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      body: JSON.stringify({ model, ...chat.request }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (reply.status === 401 || reply.status === 403) return wantsKey(reply.status, apiKey !== undefined);
    if (!reply.ok) return `its /tokenize answers ${reply.status}`;
    const tokens: unknown = ((await reply.json()) as { readonly tokens?: unknown }).tokens;
    return Array.isArray(tokens) && tokens.every((t) => typeof t === "number")
      ? tokens
      : "its /tokenize gives no token ids";
  } catch (error) {
    return `its /tokenize fails: ${error instanceof Error ? error.message : String(error)}`;
  }
}
