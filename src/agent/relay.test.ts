import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import { workerId } from "../core/ids.ts";
import { SILENT_LOG } from "../core/log.ts";
import { sampleWorker } from "../core/worker.case.ts";
import { type UpstreamHandler, Upstreams } from "../http/upstream.ts";
import { until } from "../process/testing/harness.ts";
import { listenWire } from "../wire/listen.ts";
import { openTls } from "../wire/tls.ts";
import { openTunnel } from "../wire/tunnel.ts";
import { createRelay } from "./relay.ts";
import { relayOf } from "./relay-path.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

type Handle = (req: IncomingMessage, res: ServerResponse) => void;

async function listening(server: Server): Promise<number> {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return (server.address() as AddressInfo).port;
}

const ID = workerId("n/m");

/** An engine, and the agent's port before it. */
async function rig(handle: Handle, endpoint = "tcp://127.0.0.1:1"): Promise<{ base: string; agent: string }> {
  const engine = createServer(handle);
  const url = `http://127.0.0.1:${await listening(engine)}`;
  ends.push(
    () => engine.closeAllConnections(),
    () => engine.close(),
  );
  const relay = relayOf(ID, url, "always", true);
  const directory = createMemoryDirectory([
    {
      ...sampleWorker("n/m", { url }),
      id: ID,
      ...(relay === undefined ? {} : { relay }),
      kv: { type: "events", endpoint, topic: "", dpRank: 0 },
    },
    sampleWorker("hidden", { url }),
  ]);
  const relays = createRelay({ directory, apiKey: () => "engine-key", tls: () => ({}), log: SILENT_LOG });
  const wire = await listenWire({ routes: () => {}, tcp: { host: "127.0.0.1", port: 0 }, ...relays });
  ends.push(() => wire.close());
  const agent = `http://127.0.0.1:${wire.port}`;
  return { agent, base: `${agent}${relay?.path}` };
}

/** What came of a request, as the router sees it. */
interface Seen {
  status?: number;
  headers?: Readonly<Record<string, string | string[] | undefined>>;
  text: string;
  end?: "end" | string;
}

function send(base: string, path = "/v1/chat/completions", body = "{}"): { seen: Seen; abort(): void } {
  const upstreams = new Upstreams();
  ends.push(() => upstreams.close());
  const seen: Seen = { text: "" };
  const handler: UpstreamHandler = {
    onHead: (status, headers) => void Object.assign(seen, { status, headers }),
    onData: (chunk) => (seen.text += chunk.toString()).length >= 0,
    onEnd: () => void (seen.end = "end"),
    onFailure: ({ kind, phase }) => void (seen.end = `${kind} ${phase}`),
  };
  const headers = ["content-type", "application/json", "x-request-id", "r1"];
  const call = upstreams.send(base, { method: "POST", path, headers, body: Buffer.from(body) }, handler);
  return { seen, abort: () => call.abort() };
}

const over = (seen: Seen): Promise<void> => until("its end", () => seen.end !== undefined, 20_000);

describe("createRelay()", () => {
  it("createRelay() passes path, body and headers on, adds the engine's key, and gives the answer back", async () => {
    const { base } = await rig((req, res) => {
      let body = "";
      req.on("data", (chunk) => (body += chunk));
      req.on("end", () => {
        const { authorization } = req.headers;
        res.writeHead(201, { "content-type": "application/json", "x-engine": "e" });
        res.end(JSON.stringify({ url: req.url, body, authorization, id: req.headers["x-request-id"] }));
      });
    });
    const { seen } = send(base, "/v1/chat/completions?a=1", '{"x":1}');
    await over(seen);
    expect(seen).toMatchObject({ status: 201, end: "end", headers: { "x-engine": "e" } });
    expect(JSON.parse(seen.text)).toEqual({
      url: "/v1/chat/completions?a=1",
      body: '{"x":1}',
      authorization: "Bearer engine-key",
      id: "r1",
    });
  });

  it("createRelay() passes a stream on piece by piece, and ends the engine's work when the client leaves", async () => {
    let left = false;
    const { base } = await rig((_req, res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      res.write("data: 1\n\n");
      res.on("close", () => (left = true));
    });
    const { seen, abort } = send(base);
    await until("the first event", () => seen.text === "data: 1\n\n", 20_000);
    abort();
    await until("the engine hears of it", () => left, 20_000);
  });

  it("createRelay() breaks off where the engine does: before an answer, and within one", async () => {
    let cut: "head" | "body" = "head";
    const { base } = await rig((req, res) => {
      if (cut === "head") req.socket.destroy();
      else {
        res.writeHead(200, { "content-type": "text/event-stream" });
        res.write("data: 1\n\n");
        setTimeout(() => req.socket.destroy(), 50);
      }
    });
    const before = send(base);
    await over(before.seen);
    expect(before.seen.end).toBe("reset head");
    cut = "body";
    const within = send(base);
    await over(within.seen);
    expect(within.seen).toMatchObject({ status: 200, text: "data: 1\n\n", end: "reset body" });
  });

  it("createRelay() leaves an answer that is told by the connection's end as it is", async () => {
    const { base } = await rig((_req, res) => {
      res.useChunkedEncodingByDefault = false;
      res.shouldKeepAlive = false;
      res.writeHead(200, { "content-type": "text/plain" });
      res.end("whole");
    });
    const { seen } = send(base);
    await over(seen);
    expect(seen).toMatchObject({ text: "whole", end: "end" });
    expect(seen.headers?.["transfer-encoding"]).toBeUndefined();
  });

  it("createRelay() does not take more from the engine than the client takes", async () => {
    const piece = Buffer.alloc(64 * 1024, "x");
    let sent = 0;
    const { base } = await rig((_req, res) => {
      res.writeHead(200, { "content-type": "application/octet-stream" });
      const more = (): void => {
        while (sent < 4_000) {
          sent++;
          if (!res.write(piece)) return void res.once("drain", more);
        }
        res.end();
      };
      more();
    });
    const { hostname, port, pathname } = new URL(base);
    const asked = request({ hostname, port, path: `${pathname}/v1/x`, agent: false });
    const answer = await new Promise<IncomingMessage>((resolve) => asked.on("response", resolve).end());
    answer.pause();
    let before = -1;
    // Buffers of the sockets fill, then nothing moves any more.
    while (sent !== before) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(sent).toBeLessThan(2_000);
    let bytes = 0;
    for await (const chunk of answer) bytes += (chunk as Buffer).length;
    expect(bytes).toBe(4_000 * piece.length);
  });

  it("createRelay() says that nothing listens, and reaches no engine that is not announced so", async () => {
    const { agent } = await rig(() => {});
    for (const id of ["hidden", "none", "%", ""]) {
      const { seen } = send(`${agent}/cgn/relay/${id}`);
      await over(seen);
      expect(seen).toMatchObject({ status: 503, end: "end" });
    }
    const closed = createTcpServer();
    const port = await listening(closed);
    await new Promise((done) => closed.close(done));
    const directory = createMemoryDirectory([
      {
        ...sampleWorker("n/m", { url: `http://127.0.0.1:${port}` }),
        relay: { path: "/cgn/relay/n%2Fm", always: true },
      },
    ]);
    const relays = createRelay({ directory, apiKey: () => undefined, tls: () => ({}), log: SILENT_LOG });
    const wire = await listenWire({ routes: () => {}, tcp: { host: "127.0.0.1", port: 0 }, ...relays });
    ends.push(() => wire.close());
    const { seen } = send(`http://127.0.0.1:${wire.port}/cgn/relay/n%2Fm`);
    await over(seen);
    expect(seen.status).toBe(502);
    expect(seen.text).toMatch(/nothing listens at http:..127/);
  });

  it("createRelay() leads connections to announced event endpoints, and to no other port", async () => {
    const publisher = createTcpServer((socket) => socket.on("data", (chunk) => socket.write(`got ${chunk}`)));
    const port = await listening(publisher);
    ends.push(() => publisher.close());
    const { base } = await rig(() => {}, `tcp://127.0.0.1:${port}`);
    const clock = { now: () => 0, wall: () => Date.now(), after: () => () => {} };
    const tls = openTls({ requireMtls: false }, { clock, log: SILENT_LOG });
    const through = async (endpoint: string, name: string): Promise<string> => {
      const path = join(tmpdir(), `cgn-tunnel-test-${process.pid}-${name}`);
      const tunnel = openTunnel({ path, url: `${base}?${new URLSearchParams({ endpoint })}`, tls });
      ends.push(() => tunnel.close());
      const socket = await new Promise<ReturnType<typeof connect>>((resolve) => {
        const tried = connect({ path }, () => resolve(tried));
        tried.on("error", () => setTimeout(() => tried.connect({ path }), 20));
      });
      let text = "";
      socket.on("data", (chunk) => (text += chunk));
      socket.on("close", () => (text ||= "cut"));
      socket.write("hello");
      await until("an answer", () => text !== "", 20_000);
      socket.destroy();
      return text;
    };
    expect(await through(`tcp://127.0.0.1:${port}`, "a")).toBe("got hello");
    expect(await through("tcp://127.0.0.1:22", "b")).toBe("cut");
  });
});
