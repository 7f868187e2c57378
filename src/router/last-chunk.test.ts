import { describe, expect, it } from "vitest";
import { withoutUsage } from "./last-chunk.ts";

const event = (chunk: object | string): Buffer =>
  Buffer.from(`data: ${typeof chunk === "string" ? chunk : JSON.stringify(chunk)}\n\n`);
const finish = { id: "x", choices: [{ index: 0, delta: { content: "é}" }, finish_reason: "stop" }] };
const usage = { id: "x", object: "o", created: 1, model: "m", choices: [], usage: { prompt_tokens: 1 } };

describe("withoutUsage()", () => {
  it("lays what the usage chunk has besides usage on the chunk before it", () => {
    const told = { ...usage, system_fingerprint: "vllm-1", timings: { cache_n: 4 } };
    const text = withoutUsage(event(finish), told).toString();
    expect(text).toBe(event({ ...finish, system_fingerprint: "vllm-1", timings: { cache_n: 4 } }).toString());
  });

  it("keeps the bytes where there is nothing to lay on it", () => {
    const spaced = event('{ "id":"x", "choices":[] , "system_fingerprint":"a"}');
    expect(withoutUsage(spaced, usage)).toBe(spaced);
    expect(withoutUsage(spaced, { ...usage, system_fingerprint: "b", metrics: null })).toBe(spaced);
    expect(withoutUsage(event("{no"), { ...usage, a: 1 }).toString()).toBe(event("{no").toString());
  });

  it("puts a value where the chunk has null", () => {
    const text = withoutUsage(event({ ...finish, system_fingerprint: null }), { ...usage, system_fingerprint: "b" });
    expect(text.toString()).toBe(event({ ...finish, system_fingerprint: "b" }).toString());
  });

  it("keeps the end of line of an event", () => {
    const crlf = Buffer.from('event: x\r\ndata: {"choices":[]}\r\n\r\n');
    expect(withoutUsage(crlf, { ...usage, a: 1 }).toString()).toBe('event: x\r\ndata: {"choices":[],"a":1}\r\n\r\n');
  });
});
