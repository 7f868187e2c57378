const TIMEOUT_MS = 5_000;
const MAX_BYTES = 1024 * 1024;

/**
 * Read a JSON document of an issuer. Redirects are refused: keys that came from elsewhere would be somebody else's.
 * @throws Error for no answer within 5 s, another status than 200, more than 1 MiB, or no JSON
 */
export async function fetchJson(url: string): Promise<unknown> {
  let res: Response;
  try {
    res = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { accept: "application/json" },
    });
  } catch (e) {
    const cause = e instanceof Error && e.cause instanceof Error ? e.cause.message : String((e as Error).message);
    throw new Error(`${url} does not answer: ${cause}`);
  }
  if (res.status !== 200) {
    await res.body?.cancel();
    throw new Error(`${url} answers ${res.status}${res.status >= 300 && res.status < 400 ? ", a redirect" : ""}`);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of res.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new Error(`${url} answers more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new Error(`${url} answers no JSON`);
  }
}
