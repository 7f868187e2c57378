import { describe, expect, it } from "vitest";
import { portClashes } from "./plan-ports.ts";

describe("portClashes()", () => {
  it("portClashes() finds a written port that two engines open", () => {
    const plan = {
      ports: [
        { name: "http", port: 8001 },
        { name: "lmcache", port: 5555 },
      ],
    };
    const other = {
      ports: [
        { name: "http", port: 8002 },
        { name: "lmcache", port: 5555 },
      ],
    };
    expect(portClashes([plan, other])).toEqual([
      { port: 5555, first: { index: 0, name: "lmcache" }, second: { index: 1, name: "lmcache" } },
    ]);
  });

  it("portClashes() counts the ports of every data-parallel rank", () => {
    const ranks = {
      ports: [
        { name: "kv-events", port: 5557, count: 2 },
        { name: "kv-replay", port: 5558, count: 2 },
      ],
    };
    expect(portClashes([ranks])).toMatchObject([{ port: 5558, second: { name: "kv-replay" } }]);
  });

  it("portClashes() lets a decode engine dial its prefill's bootstrap port", () => {
    const prefill = { ports: [{ name: "bootstrap", port: 9000 }] };
    const decode = { ports: [{ name: "prefill-bootstrap", port: 9000 }] };
    expect(portClashes([prefill, decode])).toEqual([]);
  });
});
