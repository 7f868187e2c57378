import { ApiError, call } from "./api.ts";
import { chatDelta, SseText } from "./sse-text.ts";
import type { Turn } from "./state.ts";

/** Was the turn before it refused, or did it fail before there was an answer? */
export const isWithoutAnswer = ({ role, text, error }: Turn): boolean =>
  role === "assistant" && error !== undefined && text === "";

/** What is sent again: without turns that came to nothing, since what was too long once would be so each time. */
export function keptTurns(turns: readonly Turn[]): readonly Turn[] {
  return turns.filter((turn, i) => !isWithoutAnswer(turn) && !(turn.role === "user" && isLost(turns[i + 1])));
}

const isLost = (answer: Turn | undefined): boolean => answer !== undefined && isWithoutAnswer(answer);

/**
 * Send a chat and follow its answer.
 * @param turn called with the answer so far, each time there is more
 * @param refused called where a key is asked for, or another one
 */
export async function runChat(
  model: string,
  turns: readonly Turn[],
  signal: AbortSignal,
  turn: (answer: Turn) => void,
  refused: (why: string) => void,
): Promise<void> {
  const messages = keptTurns(turns).map(({ role, text }) => ({ role, content: text }));
  const started = performance.now();
  let answer: Turn = { role: "assistant", text: "" };
  const become = (more: Partial<Turn>): void => turn((answer = { ...answer, ...more }));
  try {
    const res = await call("/v1/cgn/chat", {
      method: "POST",
      signal,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages, stream: true, stream_options: { include_usage: true } }),
    });
    const predicted = res.headers.get("x-cgn-predicted-cached-tokens");
    const route = {
      id: res.headers.get("x-request-id") ?? "",
      node: res.headers.get("x-cgn-node") ?? "?",
      ...(predicted === null ? {} : { predicted: Number(predicted) }),
    };
    become({ route });
    await follow(res, started, () => answer, become);
  } catch (e) {
    if (signal.aborted) become({ error: "Stopped." });
    else {
      become({ error: e instanceof ApiError ? e.message : String(e) });
      if (e instanceof ApiError && (e.status === 401 || e.status === 403)) refused(e.message);
    }
  }
}

async function follow(
  res: Response,
  started: number,
  now: () => Turn,
  become: (more: Partial<Turn>) => void,
): Promise<void> {
  const events = new SseText();
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    for (const data of events.push(value)) {
      const delta = chatDelta(data);
      if (delta === undefined) continue;
      const { text, thoughts = "", route } = now();
      const first = route?.ttftMs === undefined && delta.text + delta.thoughts !== "";
      const more = { ...(first ? { ttftMs: performance.now() - started } : {}), ...delta.usage };
      become({
        text: text + delta.text,
        ...(thoughts + delta.thoughts === "" ? {} : { thoughts: thoughts + delta.thoughts }),
        ...(delta.error === undefined ? {} : { error: delta.error }),
        ...(route === undefined ? {} : { route: { ...route, ...more } }),
      });
    }
  }
  const { route } = now();
  if (route !== undefined) become({ route: { ...route, totalMs: performance.now() - started } });
}
