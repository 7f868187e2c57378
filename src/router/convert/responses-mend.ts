import { isObject, type Json } from "./conversion.ts";

/** Events that speak of a part of an item; of those of a whole item, and of calls, only its place is told. */
const OF_PARTS = /^response\.(content_part|output_text|reasoning_text|refusal)\./;

/**
 * Adds to events of the Responses API what clients count on and an engine leaves out: their number, the place of their item in the
 * output, of their part in the item, and log probabilities where there are none. OpenAI's SDK for Python finds the item of a delta by
 * them (llama-server sends none of it: xllamacpp 2026.10).
 */
export class ResponsesMender {
  #sequence = 0;
  #items = 0;
  readonly #places = new Map<string, number>();

  /** @returns the event whole; undefined: it lacks nothing that can be told */
  mend(data: Buffer): Buffer | undefined {
    let event: unknown;
    try {
      event = JSON.parse(data.toString("utf8"));
    } catch {
      return undefined;
    }
    if (!isObject(event) || typeof event["type"] !== "string" || "sequence_number" in event) return undefined;
    const mended = { ...event, ...this.#missing(event["type"], event), sequence_number: this.#sequence++ };
    return Buffer.from(`event: ${event["type"]}\ndata: ${JSON.stringify(mended)}\n\n`);
  }

  #missing(type: string, event: Readonly<Json>): Json {
    const { item, item_id: id } = event;
    const own = isObject(item) ? item["id"] : id;
    if (typeof own !== "string") return {};
    if (type === "response.output_item.added") this.#places.set(own, this.#items++);
    const missing: Json = {};
    if (!("output_index" in event)) missing["output_index"] = this.#places.get(own) ?? Math.max(0, this.#items - 1);
    if (OF_PARTS.test(type) && !("content_index" in event)) missing["content_index"] = 0;
    if (type.startsWith("response.output_text.") && !("logprobs" in event)) missing["logprobs"] = [];
    return missing;
  }
}
