/** Events of a stream, from its text as it comes. */
export class SseText {
  #rest = "";

  /** The data of each event that is whole now. */
  push(text: string): string[] {
    const parts = (this.#rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.#rest = parts.pop() ?? "";
    return parts.flatMap((part) => {
      const lines = part.split("\n").filter((line) => line.startsWith("data:"));
      return lines.length === 0 ? [] : [lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n")];
    });
  }
}

/** What one event of a chat's stream adds. */
export interface ChatDelta {
  readonly text: string;
  readonly thoughts: string;
  readonly error?: string;
  readonly usage?: { readonly prompt?: number; readonly generated?: number; readonly cached?: number };
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: unknown; readonly reasoning_content?: unknown; readonly reasoning?: unknown };
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: { readonly message?: string } | string;
}

/** Read one event's data; undefined: it is the end, or no JSON. */
export function chatDelta(data: string): ChatDelta | undefined {
  if (data === "[DONE]") return undefined;
  let chunk: Chunk;
  try {
    chunk = JSON.parse(data) as Chunk;
  } catch {
    return undefined;
  }
  const delta = chunk.choices?.[0]?.delta;
  const { usage, error } = chunk;
  const thoughts = delta?.reasoning_content ?? delta?.reasoning;
  return {
    text: typeof delta?.content === "string" ? delta.content : "",
    thoughts: typeof thoughts === "string" ? thoughts : "",
    ...(error === undefined
      ? {}
      : { error: typeof error === "string" ? error : (error.message ?? "The stream ended with an error.") }),
    ...(usage == null
      ? {}
      : {
          usage: {
            ...(usage.prompt_tokens === undefined ? {} : { prompt: usage.prompt_tokens }),
            ...(usage.completion_tokens === undefined ? {} : { generated: usage.completion_tokens }),
            ...(usage.prompt_tokens_details?.cached_tokens === undefined
              ? {}
              : { cached: usage.prompt_tokens_details.cached_tokens }),
          },
        }),
  };
}
