import { isObject } from "./answer.ts";

/** What each chunk of a stream has, and what was asked for by the router only. */
const COMMON: ReadonlySet<string> = new Set(["id", "object", "created", "model", "choices", "usage"]);

/**
 * The chunk that an engine would have sent had nobody asked it for usage: what its usage chunk has besides (llama-server's `timings`,
 * vLLM's `system_fingerprint`) stands in the chunk before it then.
 *
 * @param raw the event before the usage chunk, as it came
 * @param usage the usage chunk, which the client does not get
 */
export function withoutUsage(raw: Buffer, usage: unknown): Buffer {
  const more = Object.entries(isObject(usage) ? usage : {}).filter(([key, v]) => v !== null && !COMMON.has(key));
  if (more.length === 0) return raw;
  const text = raw.toString("utf8");
  const [start, end] = [text.indexOf("{"), text.lastIndexOf("}")];
  const chunk = end < start ? undefined : objectOf(text.slice(start, end + 1));
  if (chunk === undefined) return raw;
  const lacking = more.filter(([key]) => (chunk[key] ?? null) === null);
  if (lacking.length === 0) return raw;
  // Its bytes stay; only a null of its own must not stand beside what it is.
  if (lacking.some(([key]) => key in chunk))
    return Buffer.from(`data: ${JSON.stringify({ ...chunk, ...Object.fromEntries(lacking) })}\n\n`);
  return Buffer.from(
    `${text.slice(0, end)},${JSON.stringify(Object.fromEntries(lacking)).slice(1)}${text.slice(end + 1)}`,
  );
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
