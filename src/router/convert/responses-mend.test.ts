import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ResponsesMender } from "./responses-mend.ts";

const dataOf = (text: string) => [...text.matchAll(/^data: (.*)$/gm)].map((m) => m[1]!);

describe("ResponsesMender", () => {
  it("completes what llama-server sends, and leaves the rest of it as it was", () => {
    const recorded = readFileSync(
      new URL("../../../test/fixtures/llama-cpp/responses_stream.sse", import.meta.url),
      "utf8",
    );
    const sent = dataOf(recorded);
    const mender = new ResponsesMender();
    const mended = sent.map((data) => JSON.parse(dataOf(mender.mend(Buffer.from(data))!.toString())[0]!));
    expect(mended.map((e) => e.sequence_number)).toEqual(mended.map((_, i) => i));
    for (const [i, event] of mended.entries()) {
      expect(event).toMatchObject(JSON.parse(sent[i]!));
      if (event.item_id !== undefined) expect([event.output_index, event.content_index]).toEqual([0, 0]);
      if (event.item !== undefined) expect(event.output_index).toBe(0);
    }
    expect(mended.filter((e) => e.type === "response.output_text.delta").every((e) => e.logprobs.length === 0)).toBe(
      true,
    );
  });

  it("gives each item its place", () => {
    const mender = new ResponsesMender();
    const place = (event: object) =>
      JSON.parse(dataOf(mender.mend(Buffer.from(JSON.stringify(event)))!.toString())[0]!).output_index;
    expect(place({ type: "response.output_item.added", item: { id: "a" } })).toBe(0);
    expect(place({ type: "response.output_item.added", item: { id: "b" } })).toBe(1);
    expect(place({ type: "response.function_call_arguments.delta", item_id: "a" })).toBe(0);
    expect(place({ type: "response.output_item.done", item: { id: "b" } })).toBe(1);
    expect(place({ type: "response.output_text.delta", item_id: "who" })).toBe(1);
  });

  it.each(['{"type":"response.created","sequence_number":0}', "[DONE]", "null", "{}"])("leaves %s as it is", (data) => {
    expect(new ResponsesMender().mend(Buffer.from(data))).toBeUndefined();
  });
});
