/** What of an answer an engine without a model can get right: fields, the types of what they hold, the order of events. */

/**
 * Fields of a value with the types of what they hold, sorted. Of a list the shapes of its items, each once. Maps whose keys are
 * made up (token texts, ids) count as one key.
 */
export function shapeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return `[${[...new Set(value.map(shapeOf))].sort().join("|")}]`;
  if (typeof value !== "object") return typeof value;
  const entries = Object.entries(value).map(
    ([key, inner]) => `${key}:${MAPS.has(key) ? mapShape(inner) : shapeOf(inner)}`,
  );
  return `{${entries.sort().join(",")}}`;
}

/** Hold maps from token texts or ids to figures, in vLLM and SGLang. */
const MAPS = new Set(["top_logprobs", "prompt_logprobs"]);

/** A list of such maps; a list of objects with a `token` is none. */
function mapShape(value: unknown): string {
  if (!Array.isArray(value)) return shapeOf(value);
  const shapes = value.map((each: unknown) => {
    if (typeof each !== "object" || each === null || Array.isArray(each) || "token" in each) return shapeOf(each);
    return `{*:${[...new Set(Object.values(each).map(shapeOf))].sort().join("|")}}`;
  });
  return `[${[...new Set(shapes)].sort().join("|")}]`;
}

/** The same of a text: JSON, else whether there is any. */
export function shapeOfText(text: string): string {
  try {
    return shapeOf(JSON.parse(text));
  } catch {
    return text === "" ? "empty" : "text";
  }
}

/**
 * The events of a stream, by choice, in order: name and shape. Equal ones that follow each other count as one: how many tokens
 * there are is the model's business.
 */
export function eventsOf(text: string): string {
  const byChoice = new Map<string, string[]>();
  for (const event of text.split(/\r?\n\r?\n/)) {
    if (event.trim() === "") continue;
    const name = /^event: (.*)$/m.exec(event)?.[1];
    const { key, shape } = eventShape(/^data: (.*)$/m.exec(event)?.[1] ?? event);
    const list = byChoice.get(key) ?? [];
    byChoice.set(key, list);
    const told = name === undefined ? shape : `${name} ${shape}`;
    if (list.at(-1) !== told) list.push(told);
  }
  return [...byChoice]
    .map(([key, list]) => `${key}: ${list.join(" → ")}`)
    .sort()
    .join("\n");
}

function eventShape(data: string): { readonly key: string; readonly shape: string } {
  try {
    const value = JSON.parse(data) as { readonly choices?: readonly { readonly index?: number }[] } | null;
    const index = value?.choices?.[0]?.index;
    return { key: index === undefined ? "all" : `choice ${index}`, shape: shapeOfText(data) };
  } catch {
    return { key: "all", shape: data };
  }
}

/** Families of a Prometheus text, with their types. */
export function metricNames(text: string): string {
  const names = [...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map(([, name, type]) => `${name} ${type}`);
  return [...new Set(names)].sort().join("\n");
}

/** What is comparable of a body, by its content type. */
export function comparable(type: string, text: string): string {
  if (type.startsWith("text/event-stream")) return eventsOf(text);
  return type.startsWith("text/plain") ? metricNames(text) : shapeOfText(text);
}

/** The message of an error without its numbers, and without the places in source files that SGLang names. */
export function wordsOf(text: string): string {
  let message = text;
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    const error = (body["error"] ?? body) as Record<string, unknown>;
    message = String(error["message"] ?? text);
  } catch {
    // Not JSON: all of it.
  }
  return message.replace(/\d+/g, "N").replace(/File ".*?", line N/g, "File");
}
