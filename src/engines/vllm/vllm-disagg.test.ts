import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Legs } from "../disaggregation.ts";
import { vllmDisaggregation as protocol } from "./vllm-disagg.ts";

interface Exchange {
  readonly request: Readonly<Record<string, unknown>>;
  readonly response: Readonly<Record<string, unknown>>;
}
const exchange = (name: string): Exchange =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/vllm/nixl_exchange/${name}.json`, import.meta.url), "utf8"));

function legs(body: Readonly<Record<string, unknown>>, over: Partial<Legs> = {}): Legs {
  return { prefill: { protocol: "pull" }, decode: { protocol: "pull" }, body, tryId: "t1", room: (n) => n, ...over };
}

/** A body with edits, as the engine reads it. */
function edited(body: Readonly<Record<string, unknown>>, edits: Readonly<Record<string, string | undefined>>): unknown {
  const out: Record<string, unknown> = { ...body };
  for (const [key, text] of Object.entries(edits)) {
    if (text === undefined) delete out[key];
    else out[key] = JSON.parse(text);
  }
  return out;
}

describe("vllmDisaggregation", () => {
  it("makes the bodies that two real engines handed over with", () => {
    const [p, d] = [exchange("01_pd1_prefill"), exchange("02_pd1_decode")];
    const { kv_transfer_params: _own, ...client } = d.request;
    expect(edited(client, protocol.prefillEdits(legs(client)))).toEqual(p.request);
    const answer = protocol.readPrefill(p.response);
    expect(answer).toMatchObject({ type: "handed-over", cachedTokens: 0 });
    expect(edited(client, answer.type === "handed-over" ? answer.edits : {})).toEqual(d.request);
  });

  it("asks the prefill for one token, not streamed, and for no minimum", () => {
    const body = {
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 90,
      max_completion_tokens: 80,
      min_tokens: 5,
      tools: [{ type: "function" }],
    };
    expect(edited(body, protocol.prefillEdits(legs(body)))).toMatchObject({
      stream: false,
      max_tokens: 1,
      max_completion_tokens: 1,
      tools: body.tools,
    });
    expect(edited(body, protocol.prefillEdits(legs(body)))).not.toHaveProperty("stream_options");
    expect(edited(body, protocol.prefillEdits(legs(body)))).not.toHaveProperty("min_tokens");
  });

  it.each(["09_pd7_stop_reason_prefill", "10_pd8_stream_prefill", "11_pd9_short_prefill"])(
    "readPrefill() takes the parameters of %s",
    (name) => expect(protocol.readPrefill(exchange(name).response).type).toBe("handed-over"),
  );

  it("readPrefill() never passes on parameters that would hang or kill a decode engine", () => {
    const { response } = exchange("01_pd1_prefill");
    const whole = response["kv_transfer_params"] as Record<string, unknown>;
    for (const member of ["remote_engine_id", "remote_request_id", "remote_host", "remote_port", "remote_block_ids"]) {
      const { [member]: _gone, ...partial } = whole;
      expect(protocol.readPrefill({ ...response, kv_transfer_params: partial }).type).toBe("nothing-held");
    }
    for (const none of [null, undefined, [], "x", { ...whole, do_remote_prefill: false }]) {
      expect(protocol.readPrefill({ ...response, kv_transfer_params: none }).type).toBe("nothing-held");
    }
    for (const rubbish of [undefined, null, 3, "text", []])
      expect(protocol.readPrefill(rubbish).type).toBe("nothing-held");
  });

  it("names the prefill and the transfer to both legs where the prefill pushes, by rank", () => {
    const prefill = { protocol: "push", host: "10.0.0.5", port: 20_052, engineId: "e1" } as const;
    const both = legs({}, { prefill, decode: { protocol: "push" } });
    expect(protocol.isTogether(prefill)).toBe(true);
    expect(edited({}, protocol.prefillEdits(both))).toMatchObject({
      kv_transfer_params: { do_remote_decode: true, transfer_id: "t1" },
    });
    expect(edited({}, protocol.decodeEdits(both))).toEqual({
      kv_transfer_params: expect.objectContaining({
        do_remote_prefill: true,
        transfer_id: "t1",
        remote_request_id: "t1",
        remote_engine_id: "e1",
        remote_host: "10.0.0.5",
        remote_port: 20_052,
      }),
    });
    expect(edited({}, protocol.decodeEdits({ ...both, prefillRank: 3 }))).toMatchObject({
      kv_transfer_params: { remote_engine_id: "e1_dp3", remote_port: 20_055 },
    });
  });

  it.each([
    ["/v1/chat/completions", { n: 2 }],
    ["/v1/completions", { prompt: ["a", "b"] }],
    ["/v1/completions", { prompt: [[1, 2], [3]] }],
    ["/v1/completions", { best_of: 3 }],
    ["/v1/completions", { prompt_logprobs: 0 }],
    ["/v1/completions", { echo: true, logprobs: 0 }],
    ["/v1/embeddings", {}],
    ["/v1/responses", {}],
  ])("whyWhole() has a reason for %s %j", (path, body) => {
    expect(protocol.whyWhole(path, body)).toBeTypeOf("string");
  });

  it.each([
    ["/v1/chat/completions", { n: 1, logprobs: true, top_logprobs: 5, tools: [{}], response_format: {} }],
    ["/v1/completions", { prompt: "a", echo: true }],
    ["/v1/completions", { prompt: [1, 2, 3], logprobs: 2 }],
  ])("whyWhole() lets %s %j be split", (path, body) => {
    expect(protocol.whyWhole(path, body)).toBeUndefined();
  });
});
