import { request } from "undici";
import { isShortage } from "./shortage.ts";

/** What was answered; status 0 when nothing was (refused, reset, timed out: `timedOut`). */
export interface HttpReply {
  readonly status: number;
  readonly body: string;
  readonly timedOut?: boolean;
  /** It was never asked: this process has no file descriptor or port left for the connection. */
  readonly unasked?: boolean;
}

export interface HttpProbe {
  readonly url: string;
  readonly method?: "GET" | "POST";
  readonly body?: string;
  readonly timeoutMs: number;
  /** Sent as a bearer token. */
  readonly apiKey?: string;
}

/** Enough for any health body, model list or page of metrics. */
const MAX_BODY = 4 * 1024 * 1024;

/** One exchange with an engine on a connection of its own. Never rejects. */
export async function probeHttp({ url, method = "GET", body, timeoutMs, apiKey }: HttpProbe): Promise<HttpReply> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const reply = await request(url, {
      method,
      signal,
      // An idle kept-alive connection makes llama-server's exit later.
      reset: true,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      ...(body === undefined ? {} : { body }),
    });
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of reply.body) {
      chunks.push(chunk as Buffer);
      if ((size += (chunk as Buffer).byteLength) > MAX_BODY) break;
    }
    return { status: reply.statusCode, body: Buffer.concat(chunks).toString("utf8") };
  } catch (error) {
    return { status: 0, body: "", timedOut: signal.aborted, unasked: !signal.aborted && isShortage(error) };
  }
}
