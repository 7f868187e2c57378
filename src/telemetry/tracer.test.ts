import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { otlpBody, type Span } from "./spans.ts";
import { formatTraceparent, isSampled, parseTraceparent } from "./traceparent.ts";
import { Tracer } from "./tracer.ts";

const ID = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("parseTraceparent()", () => {
  it("reads what formatTraceparent() writes", () => {
    const hex = (length: number) =>
      fc
        .array(fc.constantFrom(..."0123456789abcdef"), { minLength: length, maxLength: length })
        .map((all) => all.join(""));
    fc.assert(
      fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, sampled) => {
        fc.pre(!/^0+$/.test(traceId) && !/^0+$/.test(spanId));
        expect(parseTraceparent(formatTraceparent({ traceId, spanId, sampled }))).toEqual({ traceId, spanId, sampled });
      }),
    );
  });

  it("reads later versions as 00, and other flags than the first bit as nothing", () => {
    expect(parseTraceparent(`01-${ID}-${SPAN}-03-more`)).toEqual({ traceId: ID, spanId: SPAN, sampled: true });
    expect(parseTraceparent(`00-${ID}-${SPAN}-02`)?.sampled).toBe(false);
  });

  it.each([
    undefined,
    "",
    `00-${ID}-${SPAN}`,
    `00-${ID.toUpperCase()}-${SPAN}-01`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${ID}-${"0".repeat(16)}-01`,
    `ff-${ID}-${SPAN}-01`,
    `00-${ID}-${SPAN}-01-more`,
    `00-${ID}-${SPAN}-01\r\nx: y`,
  ])("takes %j for none", (header) => expect(parseTraceparent(header)).toBeUndefined());
});

describe("isSampled()", () => {
  it("keeps about the share, and the same traces at each look", () => {
    const ids = Array.from({ length: 4_000 }, (_, i) =>
      ((BigInt(i) * 0x9e3779b97f4a7c15n) % 2n ** 64n).toString(16).padStart(32, "0"),
    );
    const kept = ids.filter((id) => isSampled(id, 0.25));
    expect(kept.length / ids.length).toBeGreaterThan(0.2);
    expect(kept.length / ids.length).toBeLessThan(0.3);
    expect(kept.every((id) => isSampled(id, 0.5))).toBe(true);
    expect(ids.some((id) => isSampled(id, 0))).toBe(false);
    expect(ids.every((id) => isSampled(id, 1))).toBe(true);
  });
});

function rig(ratio: number) {
  let nowMs = 100;
  const clock: Clock = { now: () => nowMs, wall: () => 1_000_000 + nowMs, after: () => () => {} };
  const spans: Span[] = [];
  const exporter = {
    add: (all: readonly Span[]) => void spans.push(...all),
    status: () => ({ endpoint: "", waiting: 0 }),
    close: async () => {},
  };
  return { tracer: new Tracer(ratio, clock, exporter), spans, pass: (ms: number) => void (nowMs += ms) };
}

describe("Tracer", () => {
  it("makes one span a phase below one for the request, without gaps", () => {
    const { tracer, spans, pass } = rig(1);
    const trace = tracer.begin("POST /x", `00-${ID}-${SPAN}-01`, 90);
    for (const phase of ["read", "forward", "relay"]) {
      pass(5);
      trace.phase(phase);
      if (phase === "forward") expect(trace.traceparent()).toMatch(new RegExp(`^00-${ID}-[0-9a-f]{16}-01$`));
      trace.note({ of: phase });
    }
    pass(5);
    trace.end();
    trace.end();
    trace.phase("late");
    const root = spans.at(-1)!;
    expect(spans.map((s) => [s.name, s.startMs - 1_000_000, s.endMs - 1_000_000])).toEqual([
      ["accept", 90, 105],
      ["read", 105, 110],
      ["forward", 110, 115],
      ["relay", 115, 120],
      ["POST /x", 90, 120],
    ]);
    expect(root).toMatchObject({ traceId: ID, parentId: SPAN, kind: "server" });
    expect(spans.slice(0, -1).every((s) => s.parentId === root.spanId)).toBe(true);
    expect(new Set(spans.map((s) => s.spanId)).size).toBe(5);
  });

  it("keeps to the caller's decision, and tells the engine of it", () => {
    const never = rig(0);
    const wanted = never.tracer.begin("x", `00-${ID}-${SPAN}-01`, 0);
    wanted.end();
    expect(never.spans).toHaveLength(2);
    const always = rig(1);
    const unwanted = always.tracer.begin("x", `00-${ID}-${SPAN}-00`, 0);
    unwanted.phase("read");
    expect(unwanted.traceparent()).toMatch(new RegExp(`^00-${ID}-[0-9a-f]{16}-00$`));
    unwanted.end();
    expect(always.spans).toEqual([]);
  });
});

describe("otlpBody()", () => {
  it("writes ids in hex, times in nanoseconds and integers as texts", () => {
    const span: Span = {
      traceId: ID,
      spanId: SPAN,
      parentId: "",
      name: "x",
      kind: "client",
      startMs: 1_796_006_163_123.25,
      endMs: 1_796_006_163_124,
      attributes: { a: "t", n: 3, r: 0.5, b: true },
      error: "HTTP 502",
    };
    expect(otlpBody({ "service.name": "cgn" }, [span])).toMatchObject({
      resourceSpans: [
        {
          resource: { attributes: [{ key: "service.name", value: { stringValue: "cgn" } }] },
          scopeSpans: [
            {
              spans: [
                {
                  traceId: ID,
                  kind: 3,
                  startTimeUnixNano: "1796006163123250000",
                  attributes: [
                    { value: { stringValue: "t" } },
                    { value: { intValue: "3" } },
                    { value: { doubleValue: 0.5 } },
                    { value: { boolValue: true } },
                  ],
                  status: { code: 2, message: "HTTP 502" },
                },
              ],
            },
          ],
        },
      ],
    });
  });
});
