/** A small HTTP exchange, already done. Status 0: no answer. */
export interface TextReply {
  readonly status: number;
  readonly body: string;
  /** With status 0: nobody listens there, as opposed to no answer in time. */
  readonly refused: boolean;
}

export interface TextRequest {
  readonly method?: "GET" | "POST";
  /** JSON. */
  readonly body?: string;
  readonly timeoutMs: number;
}

/** Ask for a text: probes, templates, the admin API. Never rejects; redirects are not followed. */
export async function fetchText(url: string, request: TextRequest): Promise<TextReply> {
  try {
    const res = await fetch(url, {
      method: request.method ?? "GET",
      redirect: "manual",
      signal: AbortSignal.timeout(request.timeoutMs),
      ...(request.body === undefined ? {} : { body: request.body, headers: { "content-type": "application/json" } }),
    });
    return { status: res.status, body: await res.text(), refused: false };
  } catch (e) {
    const cause = e instanceof Error ? e.cause : undefined;
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    return { status: 0, body: "", refused: code === "ECONNREFUSED" || code === "ENOTFOUND" };
  }
}
