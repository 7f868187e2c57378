import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { Http1Pool } from "./http1-pool.ts";
import type { UpstreamRequest } from "./upstream.ts";

const closers: (() => void)[] = [];

afterEach(() => {
  for (const close of closers.splice(0).reverse()) close();
});

interface Engine {
  readonly pool: Http1Pool;
  readonly sockets: Socket[];
  /** All that came, by connection. */
  readonly got: string[];
}

/** A pool before a server on bare sockets. */
async function start(answer: (socket: Socket, text: string) => void): Promise<Engine> {
  const sockets: Socket[] = [];
  const got: string[] = [];
  const server = createServer((socket) => {
    const n = sockets.push(socket) - 1;
    got[n] = "";
    socket.on("error", () => {});
    socket.on("data", (data) => {
      got[n] += data.toString("latin1");
      answer(socket, data.toString("latin1"));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const pool = new Http1Pool(url, { connectMs: 5_000, headersMs: 0, idleMs: 0 });
  closers.push(() => pool.close());
  closers.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { pool, sockets, got };
}

function ask(pool: Http1Pool, over: Partial<UpstreamRequest> = {}, onData = (_bytes: Buffer): boolean => true) {
  let text = "";
  let resolve: (text: string) => void = () => {};
  const done = new Promise<string>((r) => void (resolve = r));
  const call = pool.send(
    { method: "POST", path: "/p?q", headers: ["a", "1"], body: Buffer.from("body"), ...over },
    {
      onHead: (status) => void (text += `${status} `),
      onData(bytes) {
        text += bytes.toString();
        return onData(bytes);
      },
      onEnd: () => resolve(text),
      onFailure: ({ kind, phase }) => resolve(`${text}${kind} ${phase}`),
    },
  );
  return { call, done };
}

const reply = (body: string, headers = ""): string =>
  `HTTP/1.1 200 OK\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;

describe("Http1Pool", () => {
  it("send() writes a request with a host and a length, and uses the connection again", async () => {
    const { pool, sockets, got } = await start((socket) => void socket.write(reply("x")));
    expect(await ask(pool).done).toBe("200 x");
    expect(await ask(pool, { method: "GET", body: undefined }).done).toBe("200 x");
    expect(sockets).toHaveLength(1);
    const host = `host: 127.0.0.1:${sockets[0]!.localPort}\r\nconnection: keep-alive\r\na: 1\r\n`;
    expect(got[0]).toBe(`POST /p?q HTTP/1.1\r\n${host}content-length: 4\r\n\r\nbodyGET /p?q HTTP/1.1\r\n${host}\r\n`);
  });

  it.each([
    ["the engine says close", reply("x", "connection: close\r\n")],
    ["the engine keeps it for two seconds only", reply("x", "keep-alive: timeout=2\r\n")],
    ["it answers more than it was asked", `${reply("x")}more`],
  ])("send() opens another connection where %s", async (_what, answer) => {
    const { pool, sockets } = await start((socket) => void socket.write(answer));
    expect(await ask(pool).done).toBe("200 x");
    expect(await ask(pool).done).toBe("200 x");
    expect(sockets).toHaveLength(2);
  });

  it("send() opens another connection where the idle one was closed, and for a fresh request", async () => {
    const { pool, sockets, got } = await start((socket) => void socket.write(reply("x")));
    await ask(pool).done;
    const closed = new Promise((resolve) => sockets[0]!.on("close", resolve));
    sockets[0]!.end();
    await closed;
    expect(await ask(pool).done).toBe("200 x");
    expect(await ask(pool, { fresh: true }).done).toBe("200 x");
    expect(sockets).toHaveLength(3);
    expect(got[2]).toContain("connection: close\r\n");
  });

  it.each([
    ["before the head", "", "reset head"],
    ["within the head", "HTTP/1.1 200 OK\r\n", "reset head"],
    ["within the body", reply("xy").slice(0, -1), "200 xreset body"],
    ["within a chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nx", "200 xreset body"],
    ["after a body without a length", "HTTP/1.1 200 OK\r\n\r\nx", "200 x"],
    ["after nonsense", "nonsense\r\n\r\n", "protocol head"],
  ])("send() tells of a connection that ends %s", async (_when, answer, told) => {
    const { pool } = await start((socket) => void socket.end(answer));
    expect(await ask(pool).done).toBe(told);
  });

  it("send() pauses until resume()", async () => {
    const piece = "x".repeat(60_000);
    const { pool } = await start((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${60_000 * 200}\r\n\r\n`);
      for (let i = 0; i < 200; i++) socket.write(piece);
    });
    let size = 0;
    let pieces = 0;
    const { call, done } = ask(pool, {}, (bytes) => {
      size += bytes.length;
      pieces++;
      setImmediate(() => call.resume());
      return false;
    });
    expect((await done).length).toBe(4 + 60_000 * 200);
    expect(size).toBe(60_000 * 200);
    expect(pieces).toBeGreaterThan(100);
  });

  it("abort() cuts the connection, and nothing is told any more", async () => {
    const { pool, sockets } = await start(() => {});
    const { call, done } = ask(pool);
    await expect.poll(() => sockets.length).toBe(1);
    const closed = new Promise((resolve) => sockets[0]!.on("close", resolve));
    call.abort();
    await closed;
    expect(await Promise.race([done, "nothing"])).toBe("nothing");
  });

  it("close() fails what is under way", async () => {
    const { pool, sockets } = await start(() => {});
    const { done } = ask(pool);
    await expect.poll(() => sockets.length).toBe(1);
    pool.close();
    expect(await done).toMatch(/^reset /);
  });

  it.each([
    ["a header", { headers: ["a", "1\r\nb: 2"] }],
    ["a target", { path: "/p HTTP/1.1\r\nx: y" }],
  ])("send() refuses %s that would be another request", async (_what, over) => {
    const { pool, sockets } = await start(() => {});
    expect(await ask(pool, over).done).toBe("unreachable connect");
    expect(sockets).toHaveLength(0);
  });
});
