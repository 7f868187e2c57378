import type { TokenizerSource } from "../core/worker.ts";

/** Parse JSON that an engine sent; undefined when it is none. */
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A value as a table of fields; empty when it is none, so that chained reads need no checks. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A whole number of at least 1, or undefined. */
export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 1 ? value : undefined;
}

/** An entry of an engine's model list. */
export interface ServedModel {
  readonly id: string;
  readonly maxModelTokens?: number;
  /** The base model of what is a LoRA adapter. */
  readonly parent?: string;
}

/** The names that a worker is known by and those of them that are adapters; `own`: what the configuration calls its model. */
export function servedNames(
  served: readonly ServedModel[],
  own: readonly string[],
): { readonly models: readonly string[]; readonly adapters?: readonly string[] } {
  const adapters = served.filter(({ parent }) => parent !== undefined).map(({ id }) => id);
  const base = own.length > 0 ? own : served.filter(({ parent }) => parent === undefined).map(({ id }) => id);
  const models = [...new Set([...base, ...adapters])];
  return { models, ...(adapters.length === 0 ? {} : { adapters }) };
}

/**
 * The models of an OpenAI model list. `parent` stands at LoRA adapters (vLLM, SGLang). The context limit is `max_model_len` (vLLM, SGLang) or `meta.n_ctx` (llama.cpp: of one slot).
 * Entries without an id are left out; a body that is no list gives none.
 */
export function readModelList(body: string): ServedModel[] {
  const data = fieldsOf(readJson(body))["data"];
  if (!Array.isArray(data)) return [];
  return data.flatMap((entry) => {
    const fields = fieldsOf(entry);
    const id = textOf(fields["id"]);
    if (id === undefined) return [];
    const maxModelTokens = countOf(fields["max_model_len"]) ?? countOf(fieldsOf(fields["meta"])["n_ctx"]);
    const parent = textOf(fields["parent"]);
    return [
      {
        id,
        ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
        ...(parent === undefined ? {} : { parent }),
      },
    ];
  });
}

/**
 * All values of one metric in Prometheus text, labels ignored, in order.
 * Values that are no finite number are left out; a name that is missing gives an empty list.
 */
export function metricValues(text: string, name: string): number[] {
  const values: number[] = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith(name)) continue;
    const rest = line.slice(name.length);
    const value = /^(?:\{.*\})?\s+([^\s]+)(?:\s+-?\d+)?\s*$/.exec(rest)?.[1];
    if (value !== undefined && Number.isFinite(Number(value))) values.push(Number(value));
  }
  return values;
}

/** The sum over all label sets, or undefined when the metric is missing. */
export function metricSum(text: string, name: string): number | undefined {
  const values = metricValues(text, name);
  return values.length === 0 ? undefined : values.reduce((a, b) => a + b, 0);
}

/** The sum over several metrics, or undefined when none of them is there. */
export function metricTotal(text: string, names: readonly string[]): number | undefined {
  const values = names.flatMap((name) => metricValues(text, name));
  return values.length === 0 ? undefined : values.reduce((a, b) => a + b, 0);
}

/** The largest value over all label sets, or undefined when the metric is missing. */
export function metricMax(text: string, name: string): number | undefined {
  const values = metricValues(text, name);
  return values.length === 0 ? undefined : Math.max(...values);
}

/** The tokenizer of an engine whose answer says that it is cgn's simulator; no real engine has that member. */
export function readSimulatedTokenizer(body: string): TokenizerSource | undefined {
  return fieldsOf(readJson(body))["simulated"] === true ? { bytes: true } : undefined;
}
