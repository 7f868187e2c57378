import { describe, expect, it } from "vitest";
import { forwardResponseHeaders } from "./headers.ts";

describe("forwardResponseHeaders()", () => {
  it("leaves out what tells of the engine, of its pages and of its connection", () => {
    const told = {
      server: "uvicorn",
      vary: "Origin",
      "access-control-allow-origin": "*",
      connection: "keep-alive, x-hop",
      "x-hop": "1",
      "content-type": "application/json",
      "x-engine": "a",
    };
    expect(forwardResponseHeaders(told, { "x-engine": "b", "x-own": "c" })).toEqual({
      "content-type": "application/json",
      "x-engine": "b",
      "x-own": "c",
    });
  });
});
