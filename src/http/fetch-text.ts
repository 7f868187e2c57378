/** A small HTTP exchange, already done. Status 0: no answer. */
export interface TextReply {
  readonly status: number;
  readonly body: string;
  /** With status 0: nobody listens there, as opposed to no answer in time. */
  readonly refused: boolean;
  /** With status 0: what is wrong with its certificate or ours, in Node's words. */
  readonly tls?: string;
}

export interface TextRequest {
  readonly method?: "GET" | "POST";
  /** JSON. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/** No probe, template or metrics page is longer. */
const MAX_BYTES = 16 * 1024 * 1024;

const TLS_WORDS = /certificate|\bTLS\b|\bSSL\b|self-signed|altname/i;

async function boundedText(res: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of res.body ?? []) {
    bytes += chunk.length;
    // Leaving the loop cancels the rest.
    if (bytes > MAX_BYTES) throw new Error(`the answer has more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Ask for a text: probes, templates, the admin API. Never rejects; redirects are not followed. */
export async function fetchText(url: string, request: TextRequest): Promise<TextReply> {
  try {
    const res = await fetch(url, {
      method: request.method ?? "GET",
      redirect: "manual",
      signal: AbortSignal.timeout(request.timeoutMs),
      headers: { ...request.headers, ...(request.body === undefined ? {} : { "content-type": "application/json" }) },
      ...(request.body === undefined ? {} : { body: request.body }),
    });
    return { status: res.status, body: await boundedText(res), refused: false };
  } catch (e) {
    const cause = e instanceof Error ? e.cause : undefined;
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    const why = cause instanceof Error ? cause.message : "";
    const tls = TLS_WORDS.test(why) ? { tls: why } : {};
    return { status: 0, body: "", refused: code === "ECONNREFUSED" || code === "ENOTFOUND", ...tls };
  }
}
