import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { sendJson } from "./error-body.ts";
import { type HttpServer, type HttpServerOptions, startHttpServer } from "./server.ts";

const closers: (() => Promise<unknown> | unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(over: Partial<HttpServerOptions> = {}): Promise<HttpServer> {
  const server = await startHttpServer({
    name: "test",
    listen: { host: "127.0.0.1", port: 0 },
    handle(req, res) {
      req.on("end", () => sendJson(res, 200, { ok: true }));
      req.resume();
    },
    ...over,
  });
  closers.push(() => server.close(0));
  return server;
}

function open(server: HttpServer, text: string): { socket: Socket; ended: Promise<string> } {
  // Does not end when the server does: what is tested is who cuts.
  const at = { port: server.address.port, host: "127.0.0.1", allowHalfOpen: true };
  const socket = connect(at, () => socket.write(text));
  const ended = new Promise<string>((resolve) => {
    let got = "";
    socket.on("data", (data) => {
      got += data;
    });
    socket.on("error", () => {});
    socket.on("end", () => resolve(got));
    socket.on("close", () => resolve(got));
  });
  closers.push(() => void socket.destroy());
  return { socket, ended };
}

describe("startHttpServer()", () => {
  it("cuts a client that takes nothing of its answer", async () => {
    const body = Buffer.alloc(32 * 1024 * 1024, "x");
    const closed: boolean[] = [];
    const server = await start({
      stalledClientMs: 300,
      handle(_req, res) {
        res.on("close", () => closed.push(res.writableFinished));
        res.end(body);
      },
    });
    const { socket } = open(server, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    socket.pause();
    await expect.poll(() => closed, { timeout: 15_000 }).toEqual([false]);
    await expect.poll(() => server.connections(), { timeout: 15_000 }).toBe(0);
  });

  // The answer to the good request was lost: only the 400 came, in its place.
  it("answers whole requests before what is no request behind them", async () => {
    const statuses = (got: string) => [...got.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    const good = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    for (const delayMs of [0, 200]) {
      const server = await start({
        handle(_req, res) {
          res.write("begun ");
          setTimeout(() => res.end("whole"), delayMs);
        },
      });
      const got = await open(server, `${good}${good}GARBAGE\r\n\r\nGARBAGE\r\n\r\n`).ended;
      expect(statuses(got)).toEqual(["200", "200", "400"]);
      expect(got.match(/whole/g)).toHaveLength(2);
      await expect.poll(() => server.connections(), { timeout: 15_000 }).toBe(0);
    }
  });

  it("refuses a request whose own body is broken, without waiting for its answer", async () => {
    const server = await start();
    const head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    expect(await open(server, `${head}zz\r\n`).ended).toMatch(/^HTTP\/1\.1 400 /);
    await expect.poll(() => server.connections(), { timeout: 15_000 }).toBe(0);
  });

  // A client that dripped header bytes kept its connection for ever: it was only half closed after the 408.
  it("cuts a connection whose head does not come, whatever it goes on sending", async () => {
    const server = await start({ headersTimeoutMs: 200, requestTimeoutMs: 400 });
    const { socket, ended } = open(server, "POST / HTTP/1.1\r\nhost: x\r\n");
    const drip = setInterval(() => socket.write("x: y\r\n"), 20);
    closers.push(() => clearInterval(drip));
    expect(await ended).toMatch(/^HTTP\/1\.1 408 [\s\S]*"src":"cgn"/);
    await expect.poll(() => server.connections()).toBe(0);
  });

  it("cuts a connection whose body does not come", async () => {
    const server = await start({ headersTimeoutMs: 100, requestTimeoutMs: 300 });
    const { socket, ended } = open(server, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
    const drip = setInterval(() => socket.write("x"), 20);
    closers.push(() => clearInterval(drip));
    expect(await ended).toMatch(/^HTTP\/1\.1 408 /);
  });

  it("cuts the oldest of too many connections that say nothing", async () => {
    const server = await start({ maxWaiting: 2 });
    const first = open(server, "GET");
    await new Promise((resolve) => first.socket.on("connect", resolve));
    const others = [open(server, "GET"), open(server, "GET")];
    expect(await first.ended).toBe("");
    for (const { socket } of others) expect(socket.destroyed).toBe(false);
  });

  // These were answered without a body, or not at all.
  it.each([
    ["no Host", "GET / HTTP/1.1\r\n\r\n", 400],
    ["another Expect", "GET / HTTP/1.1\r\nhost: x\r\nexpect: 200-ok\r\n\r\n", 417],
    ["CONNECT", "CONNECT evil:443 HTTP/1.1\r\nhost: evil:443\r\n\r\n", 405],
    ["no HTTP", "nonsense\r\n\r\n", 400],
    ["a giant header", `GET / HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(70_000)}\r\n\r\n`, 431],
  ])("answers %s in the shape of all errors, and closes", async (_what, text, status) => {
    const { ended } = open(await start(), text);
    expect(await ended).toMatch(
      new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*"type":"invalid_request_error"[\\s\\S]*"src":"cgn"`),
    );
  });

  it("writes no error into an answer that has begun", async () => {
    let finish = (): void => {};
    const server = await start({
      handle(_req, res) {
        res.writeHead(200, { "content-length": 9 });
        res.write("part");
        finish = () => void res.end(" rest");
      },
    });
    const { socket, ended } = open(server, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    await new Promise((resolve) => socket.once("data", resolve));
    socket.write("nonsense\r\n\r\n", () => setTimeout(finish, 100));
    expect(await ended).toMatch(/part restHTTP\/1\.1 400 Bad Request/);
  });

  it("tells of a client that leaves behind its nonsense", async () => {
    const closed: boolean[] = [];
    const server = await start({
      handle(_req, res) {
        res.on("close", () => closed.push(res.writableFinished));
        res.write("part");
      },
    });
    const { socket } = open(server, "GET / HTTP/1.1\r\nhost: x\r\n\r\nnonsense\r\n\r\n");
    await new Promise((resolve) => socket.once("data", resolve));
    socket.destroy();
    await expect.poll(() => closed, { timeout: 15_000 }).toEqual([false]);
  });
});
