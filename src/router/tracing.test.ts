import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import { SpanExporter } from "../telemetry/span-exporter.ts";
import { Tracer } from "../telemetry/tracer.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { realClock, startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
}

/** A collector that takes OTLP over HTTP; `status` is what it answers. */
async function startCollector() {
  const spans: OtlpSpan[] = [];
  const collector = { url: "", spans, status: 200, posts: 0, paths: new Set<string>() };
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    collector.posts++;
    collector.paths.add(`${req.method} ${req.url} ${req.headers["content-type"]} ${req.headers["x-tenant"]}`);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    if (collector.status === 200) spans.push(...body.resourceSpans[0].scopeSpans[0].spans);
    res.writeHead(collector.status).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  return collector;
}

interface Rig extends TestRouter {
  readonly engine: FakeEngine;
  readonly metrics: Metrics;
  /** Ends the exporter, so that all is sent. */
  flush(): Promise<void>;
}

async function rig(endpoint: string, ratio = 1, settings: Parameters<typeof startTestRouter>[1] = {}): Promise<Rig> {
  const engine = await startFakeEngine();
  const metrics = createMetrics({ processMetrics: false });
  const exporter = new SpanExporter({
    endpoint,
    headers: { "x-tenant": "t1" },
    resource: { "service.name": "cgn-router" },
    clock: realClock,
    log: SILENT_LOG,
    metrics,
  });
  const tracer = new Tracer(ratio, realClock, exporter);
  const test = await startTestRouter([testWorker("a", engine.url)], settings, undefined, undefined, { tracer });
  closers.push(
    engine.close,
    () => tracer.close(),
    () => test.router.close(),
  );
  return { ...test, engine, metrics, flush: () => tracer.close() };
}

const CHAT = { model: "m", messages: [{ role: "user", content: "What is the capital of France?" }] };
const ID = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER = `00-${ID}-00f067aa0ba902b7-01`;

async function chat(url: string, body: object = CHAT, headers: Record<string, string> = {}): Promise<number> {
  const res = await fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body), headers });
  await res.arrayBuffer();
  return res.status;
}

const attributeOf = (span: OtlpSpan, key: string): unknown =>
  Object.values(span.attributes.find((a) => a.key === key)?.value ?? {})[0];

describe("[tracing]", () => {
  it("sends one span a phase below the caller's span, and the engine gets the forward span as its parent", async () => {
    const collector = await startCollector();
    const { url, engine, flush } = await rig(collector.url);
    expect(
      await chat(
        url,
        { ...CHAT, stream: true, stream_options: { include_usage: true } },
        { traceparent: CALLER, tracestate: "v=1" },
      ),
    ).toBe(200);
    await flush();
    const { spans } = collector;
    const phases = [
      "accept",
      "read",
      "queue",
      "render",
      "match",
      "choose",
      "forward",
      "first token",
      "relay",
      "settle",
    ];
    expect(spans.map(({ name }) => name)).toEqual([...phases, "POST /v1/chat/completions"]);
    const root = spans.at(-1)!;
    expect(root).toMatchObject({ traceId: ID, parentSpanId: "00f067aa0ba902b7" });
    expect(spans.slice(0, -1).every((s) => s.traceId === ID && s.parentSpanId === root.spanId)).toBe(true);
    // Each begins where the one before ended.
    for (const [i, s] of spans.slice(1, -1).entries()) expect(s.startTimeUnixNano).toBe(spans[i]!.endTimeUnixNano);
    const forward = spans.find(({ name }) => name === "forward")!;
    expect(engine.seen[0]?.headers).toMatchObject({ traceparent: `00-${ID}-${forward.spanId}-01`, tracestate: "v=1" });
    expect(attributeOf(root, "cgn.worker")).toBe("a");
    expect(attributeOf(root, "http.response.status_code")).toBe("200");
    expect(attributeOf(root, "gen_ai.usage.input_tokens")).toBe("20");
    expect([...collector.paths]).toEqual(["POST /v1/traces application/json t1"]);
    expect(JSON.stringify(spans)).not.toContain("capital");
  });

  it("the trace id is in the decision and in the request log", async () => {
    const dir = mkdtempSync(join(tmpdir(), "cgn-trace-"));
    closers.unshift(() => rmSync(dir, { recursive: true }));
    const collector = await startCollector();
    const file = join(dir, "log");
    const { url, admin, router } = await rig(collector.url, 1, { requestLog: file });
    await chat(url, CHAT, { traceparent: CALLER, "x-request-id": "mine" });
    expect(await (await fetch(`${admin}/v1/cgn/decisions/mine`)).json()).toMatchObject({ traceId: ID });
    const done = router.close();
    await done;
    await until(() => readFileSync(file, "utf8").includes(`"trace_id":"${ID}"`));
    expect(readFileSync(file, "utf8")).not.toContain("capital");
  });

  it("what is not sampled sends nothing, and the engine hears that it is not", async () => {
    const collector = await startCollector();
    const { url, engine, flush } = await rig(collector.url, 0);
    await chat(url);
    await chat(url, CHAT, { traceparent: CALLER.replace(/01$/, "00") });
    await flush();
    expect(collector.spans).toEqual([]);
    expect(engine.seen[0]?.headers["traceparent"]).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(engine.seen[1]?.headers["traceparent"]).toMatch(new RegExp(`^00-${ID}-[0-9a-f]{16}-00$`));
  });

  it("a collector that is gone costs no request, and its spans are counted", async () => {
    const { url, flush, metrics } = await rig("http://127.0.0.1:9");
    for (let i = 0; i < 5; i++) expect(await chat(url)).toBe(200);
    await flush();
    expect(await metrics.text()).toMatch(/cgn_router_trace_spans_total\{result="failed"\} \d+/);
  });

  it("errors mark the request, and a refused one has its phases up to there", async () => {
    const collector = await startCollector();
    const { url, engine, flush } = await rig(collector.url);
    engine.behaviour = { status: 500, body: { error: { message: "no" } } };
    expect(await chat(url)).toBe(500);
    expect(await chat(url, { messages: [] })).toBe(400);
    await flush();
    const roots = collector.spans.filter(({ parentSpanId }) => parentSpanId === undefined);
    expect(roots.map((root) => ("status" in root ? root.status : undefined))).toEqual([
      { code: 2, message: "HTTP 500" },
      undefined,
    ]);
    const second = collector.spans.filter(({ traceId }) => traceId === roots[1]?.traceId).map(({ name }) => name);
    expect(second).toEqual(["accept", "read", "POST /v1/chat/completions"]);
  });

  it("without it the caller's traceparent goes to the engine as it came", async () => {
    const engine = await startFakeEngine();
    const test = await startTestRouter([testWorker("a", engine.url)]);
    closers.push(engine.close, () => test.router.close());
    await chat(test.url, CHAT, { traceparent: CALLER });
    await chat(test.url);
    expect(engine.seen.map(({ headers }) => headers["traceparent"])).toEqual([CALLER, undefined]);
  });
});

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 1_000 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}
