import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { RouterOptions } from "./create-router.ts";
import { startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => Promise<unknown> | unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Seen {
  readonly url: string;
  readonly body: string;
}

type Answer = (res: ServerResponse, req: IncomingMessage) => void;

const ok: Answer = (res) => {
  res.writeHead(200, { "content-type": "application/json", server: "engine/1" });
  res.end('{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}');
};

async function engine(answer: Answer): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    seen.push({ url: req.url ?? "", body: Buffer.concat(chunks).toString("latin1") });
    answer(res, req);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => server.closeAllConnections());
  closers.push(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

async function rig(
  over: Partial<WorkerInfo> = {},
  answer = ok,
  settings: Partial<RouterOptions["settings"]> = {},
): Promise<TestRouter & { seen: Seen[]; engineUrl: string }> {
  const { url, seen } = await engine(answer);
  const test = await startTestRouter([testWorker("a", url, over)], { maxBodyBytes: 64 * 1024 * 1024, ...settings });
  closers.push(() => test.router.close());
  return { ...test, seen, engineUrl: url };
}

function post(url: string, path: string, body: string | Buffer, type = "application/json"): Promise<Response> {
  // `fetch` would normalise the path.
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const headers = { "content-type": type };
    const req = httpRequest({ hostname, port, path, method: "POST", headers }, async (res) => {
      const chunks: Buffer[] = [];
      for await (const chunk of res) chunks.push(chunk as Buffer);
      const bytes = Buffer.concat(chunks);
      resolve(new Response(new Uint8Array(bytes), { status: res.statusCode ?? 0, headers: res.headers as never }));
    });
    req.on("error", reject);
    req.end(body);
  });
}

/** The longest time that timers were kept waiting while `work` ran. */
async function longestPause(work: () => Promise<unknown>): Promise<number> {
  let last = performance.now();
  let worst = 0;
  const tick = setInterval(() => {
    const now = performance.now();
    worst = Math.max(worst, now - last);
    last = now;
  }, 1);
  await work();
  clearInterval(tick);
  return worst;
}

const CHAT = "/v1/chat/completions";

describe("large bodies", () => {
  // One such request stopped the whole router for three to twelve seconds.
  it.each([
    ["many messages", () => `{"model":"m","messages":[${'{"role":"user","content":"a"},'.repeat(200_000)}{}]}`],
    ["deep nesting", () => `{"model":"m","messages":[{"content":${"[".repeat(4e6)}${"]".repeat(4e6)}}]}`],
    ["a long text", () => `{"model":"m","messages":[{"content":"${"a".repeat(2e7)}"}]}`],
  ])("%s pass unread, by load, without stopping others", async (_what, make) => {
    const { url, seen, router, knowledge } = await rig();
    const body = make();
    let res: Response | undefined;
    const pause = await longestPause(async () => {
      res = await post(url, CHAT, body);
    });
    expect(res?.status).toBe(200);
    expect(seen[0]?.body.length).toBe(body.length);
    expect(knowledge.queries).toEqual([]);
    expect(router.core.decisions.latest(1)[0]?.unmatched).toContain("the body has more than");
    // This process is also the client and the engine, which copy it: seconds would be the router's.
    expect(pause).toBeLessThan(2_500);
  });

  it("members that must change are changed in a body that is not read whole", async () => {
    const { url, seen } = await rig({ upstreamModel: "x", traits: { stripKvTransferParams: true } });
    const filler = `"messages":[{"content":"${'\\"'.repeat(2e6)}"}]`;
    const res = await post(
      url,
      CHAT,
      `{"model":"z","kv_transfer_params":{"a":1},${filler},"model":"m","stream":false}`,
    );
    expect(res.status).toBe(200);
    expect(seen[0]?.body).toBe(`{"model":"x",${filler},"model":"x","stream":false}`);
  });

  it("what is no object, has too many members or a giant model name is refused", async () => {
    const { url, seen } = await rig();
    const pad = " ".repeat(300_000);
    const many = Array.from({ length: 60_000 }, (_, i) => `"k${i}":1`).join();
    for (const body of [
      `[${pad}]`,
      `{"model":"m"${pad}`,
      `{"model":"m",${many}}`,
      `{"model":"${"m".repeat(3e6)}"}`,
      `{"model":nope,"x":"${"m".repeat(3e6)}"}`,
    ]) {
      const res = await post(url, CHAT, body);
      const { src, error } = await res.json();
      expect([res.status, src]).toEqual([400, "cgn"]);
      // The advice was that of another mistake.
      const fits = /more than/.test(error.message) ? /Leave out|a smaller one/ : /Send a JSON object in UTF-8/;
      expect(error.message).toMatch(fits);
    }
    expect(seen).toEqual([]);
  });

  it("a model that is deep nesting is refused, not a fault of the router", async () => {
    const { url } = await rig();
    const res = await post(url, CHAT, `{"model":${"[".repeat(50_000)}${"]".repeat(50_000)}}`);
    expect(res.status).toBe(400);
  });

  it("a small body of too many messages is routed by load", async () => {
    const { url, router } = await rig();
    await post(url, CHAT, `{"model":"m","messages":[${'{"role":"user","content":"a"},'.repeat(3_000)}{}]}`);
    expect(router.core.decisions.latest(1)[0]?.unmatched).toContain("messages");
  });
});

describe("stripKvTransferParams", () => {
  const EVIL = '"kv_transfer_params":{"remote_host":"evil"}';
  const strict = { traits: { stripKvTransferParams: true } };

  // Each of these reached the engine with its kv_transfer_params.
  it.each([
    ["NaN", "/v1/responses", `{"model":"m","x":NaN,${EVIL}}`, undefined],
    ["UTF-16", "/v1/responses", Buffer.from(`\ufeff{"model":"m",${EVIL}}`, "utf16le"), undefined],
    ["UTF-16 without a mark", "/v1/responses", Buffer.from(` {"model":"m",${EVIL}}`, "utf16le"), undefined],
    ["a byte order mark", "/v1/%63ompletions", `\ufeff{"model":"m",${EVIL}}`, undefined],
    ["bytes that are no UTF-8", "/v1/responses", Buffer.from(`{"model":"m","x":"\xff",${EVIL}}`, "latin1"), undefined],
    ["a large body that is no JSON", "/v1/responses", `{"x":"${"a".repeat(3e5)}",${EVIL}`, undefined],
  ])("refuses a body that cannot be read: %s", async (_what, path, body, type) => {
    const { url, seen } = await rig(strict);
    const res = await post(url, path, body, type);
    expect([res.status, (await res.json()).error.code]).toEqual([400, "request_invalid"]);
    expect(seen).toEqual([]);
  });

  it.each([
    ["the path in another spelling", "/v1/%63ompletions", "application/json", "/v1/completions"],
    ["an encoded slash", "/v1/chat%2Fcompletions", "application/json", CHAT],
    ["slashes and dots", "//v1/./x/..//chat/completions", "application/json", CHAT],
    ["a slash at the end", "/v1/chat/completions/", "application/json", CHAT],
    ["a form that is none", "/v1/responses", "multipart/form-data; boundary=x", "/v1/responses"],
  ])("strips whatever the request looks like: %s", async (_what, path, type, want) => {
    const { url, seen } = await rig(strict);
    expect((await post(url, path, `{"model":"m",${EVIL}}`, type)).status).toBe(200);
    expect(seen).toEqual([{ url: want, body: '{"model":"m"}' }]);
  });

  it("strips within vllm_xargs, which vLLM lays under it", async () => {
    const { url, seen } = await rig(strict);
    await post(url, CHAT, '{"model":"m","vllm_xargs":{"a":1,"kv_transfer_params":"x"}}');
    await post(url, CHAT, '{"model":"m","vllm_xargs":{"a":1.0}}');
    expect(seen.map(({ body }) => body)).toEqual([
      '{"model":"m","vllm_xargs":{"a":1}}',
      '{"model":"m","vllm_xargs":{"a":1.0}}',
    ]);
  });

  it("lets forms and other bytes pass as they are", async () => {
    const { url, seen } = await rig(strict);
    const form = `--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n--x\r\n\r\n{"\xff\r\n--x--\r\n`;
    const res = await post(
      url,
      "/v1/audio/transcriptions",
      Buffer.from(form, "latin1"),
      "multipart/form-data; boundary=x",
    );
    expect(res.status).toBe(200);
    await post(url, "/v1/audio/other?model=m", Buffer.from("RIFF\xff\x00", "latin1"), "audio/wav");
    expect(seen.map(({ body }) => body)).toEqual([form, "RIFF\xff\x00"]);
  });

  it("a path that cannot be decoded is refused", async () => {
    const { url } = await rig(strict);
    expect((await post(url, "/v1/%ff", "{}")).status).toBe(400);
    expect((await post(url, "/v1/../metrics", "{}")).status).toBe(404);
  });
});

describe("answers that do not end or lead elsewhere", () => {
  // A data: line of 105 MB kept the client waiting and the router busy for a minute.
  it("an endless event of a folded answer is given up with 502", async () => {
    const { url } = await rig({ traits: { foldNonStreaming: true } }, (res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      const piece = Buffer.alloc(64 * 1024, "a");
      const more = (): void => {
        while (!res.destroyed) if (!res.write(piece)) return void res.once("drain", more);
      };
      res.write("data: ");
      more();
    });
    const started = performance.now();
    const res = await post(url, CHAT, '{"model":"m","messages":[]}');
    expect([res.status, (await res.json()).error.message]).toEqual([502, expect.stringContaining("does not end")]);
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  // The engine's own address was handed to clients.
  it("a redirect to the engine itself becomes one to us, another one 502; its name is dropped", async () => {
    const redirect: Answer = (res, req) => {
      const target = new URL(req.url ?? "", "http://x").searchParams.get("to") ?? "";
      res.writeHead(307, { location: target.replace("SELF", `http://${req.headers.host}`), server: "engine/1" });
      res.end();
    };
    const { url } = await rig({}, redirect);
    const to = (where: string) => post(url, `/v1/x?model=m&to=${encodeURIComponent(where)}`, "");
    expect((await to("SELF/v1/y?z=1")).headers.get("location")).toBe("/v1/y?z=1");
    expect((await to("/v1/y")).headers.get("location")).toBe("/v1/y");
    expect((await to("SELF//evil.example/y")).headers.get("location")).toBe("/evil.example/y");
    const away = await to("http://10.0.0.1/secret");
    expect([away.status, away.headers.get("server"), (await away.text()).includes("10.0.0.1")]).toEqual([
      502,
      null,
      false,
    ]);
  });
});

describe("requests that do not read the cache", () => {
  // Their deliberate 0 cut what the index knew.
  it.each([{ prompt_logprobs: 1 }, { echo: true, logprobs: 0 }, { cache_prompt: false }])("%j", async (asked) => {
    const { url, knowledge, router } = await rig({}, (res) => {
      res.writeHead(200, { "content-type": "application/json" });
      const usage = { prompt_tokens: 20, prompt_tokens_details: { cached_tokens: 0 } };
      res.end(JSON.stringify({ choices: [{ message: { content: "x" }, finish_reason: "stop" }], usage }));
    });
    await post(url, CHAT, JSON.stringify({ model: "m", messages: [{ content: "a" }], ...asked }));
    expect(knowledge.queries).toEqual([]);
    expect(knowledge.sentTo).toEqual(["a"]);
    expect(knowledge.outcomes[0]?.promptTokens).toBe(20);
    expect(knowledge.outcomes[0]?.cachedTokens).toBeUndefined();
    expect(router.core.decisions.latest(1)[0]?.unmatched).toContain("cache");
  });
});

describe("an engine that hangs", () => {
  it("once it is said to be down its requests move, or end with an error, at once", async () => {
    const { url, directory, engineUrl } = await rig({}, () => {});
    const waiting = post(url, CHAT, '{"model":"m","messages":[]}');
    await expect.poll(() => directory.list().length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    const down = performance.now();
    directory.set(testWorker("a", engineUrl, { state: "down", reason: "silent" }));
    const res = await waiting;
    expect([res.status >= 500, (await res.json()).src]).toEqual([true, "cgn"]);
    expect(performance.now() - down).toBeLessThan(10_000);
  });

  it("new requests are spread over both engines again when it is back", async () => {
    const a = await engine(ok);
    const b = await engine(ok);
    const test = await startTestRouter([testWorker("a", a.url), testWorker("b", b.url)]);
    closers.push(() => test.router.close());
    const ask = (text: string) => post(test.url, CHAT, JSON.stringify({ model: "m", messages: [{ content: text }] }));
    for (let i = 0; i < 10; i++) await ask(`${i} before ${"x".repeat(i * 100)}`);
    test.directory.set(testWorker("a", a.url, { state: "down", reason: "killed" }));
    for (let i = 0; i < 10; i++) expect((await ask(`${i} meanwhile`)).headers.get("x-cgn-node")).toBe("b");
    test.directory.set(testWorker("a", a.url, { epoch: 2 }));
    const nodes: Record<string, number> = {};
    for (let i = 0; i < 20; i++) {
      const node = (await ask(`${i} after ${"y".repeat(i * 50)}`)).headers.get("x-cgn-node") ?? "";
      nodes[node] = (nodes[node] ?? 0) + 1;
    }
    expect(nodes["a"]).toBeGreaterThan(3);
    expect(test.router.core.loads.of(workerId("a")).inFlight).toBe(0);
  });
});

describe("the admin port", () => {
  const ask = (url: string, path: string, headers: Record<string, string>, method = "GET"): Promise<number> => {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const req = httpRequest({ hostname, port, path, method, headers }, (res) => {
        res.resume();
        resolve(res.statusCode ?? 0);
      });
      req.on("error", reject);
      req.end();
    });
  };

  // A web page whose name resolves to 127.0.0.1 could read the status and cordon nodes.
  it("serves only who asks it by a name of loopback", async () => {
    const { admin } = await rig();
    for (const host of ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.0.1:99", "[::1]:5"]) {
      expect(await ask(admin, "/v1/cgn/status", { host }), host).toBe(200);
    }
    for (const host of [
      "evil.example",
      "127.0.0.1.evil.example",
      "localhost.evil.example:80",
      "10.0.0.1",
      "1270.0.0.1",
    ]) {
      expect(await ask(admin, "/v1/cgn/status", { host }), host).toBe(421);
      expect(await ask(admin, "/v1/cgn/nodes/a/cordon", { host }, "POST"), host).toBe(421);
      for (const path of ["/healthz", "/readyz", "/metrics"]) expect(await ask(admin, path, { host }), path).toBe(200);
    }
  });

  // These were 500, a fault of the router.
  it("answers 400 to paths that cannot be decoded", async () => {
    const { admin } = await rig();
    expect(await ask(admin, "/v1/cgn/decisions/%", {})).toBe(400);
    expect(await ask(admin, "/v1/cgn/nodes/%ff/cordon", {}, "POST")).toBe(400);
  });
});
