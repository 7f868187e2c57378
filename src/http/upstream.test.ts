import { type AddressInfo, createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { withoutContinue } from "./skip-continue.ts";
import { Upstreams } from "./upstream.ts";

const closers: (() => Promise<unknown> | unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Answers each request with these pieces, one write each. */
async function server(pieces: readonly string[]): Promise<string> {
  const listening = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("data", async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
  });
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  closers.push(() => void listening.close());
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

function get(upstreams: Upstreams, origin: string): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    upstreams.send(
      origin,
      { method: "GET", path: "/", headers: [], body: undefined },
      {
        onHead: (status) => void (text += `${status} `),
        onData(chunk) {
          text += chunk;
          return true;
        },
        onEnd: () => resolve(text),
        onFailure: (failure) => resolve(`${failure.kind}: ${failure.message}`),
      },
    );
  });
}

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const HINTS = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
const ANSWER = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

describe("Upstreams", () => {
  // An engine (or a proxy before it) that says 100 Continue unasked was given up with 502.
  it.each([
    [[ANSWER]],
    [[CONTINUE + ANSWER]],
    [[CONTINUE, ANSWER]],
    [[CONTINUE + CONTINUE, HINTS + ANSWER]],
    [[HINTS, ANSWER]],
    [[CONTINUE + HINTS, ANSWER]],
  ])("send() takes informational answers in front of the answer: %j", async (pieces) => {
    const upstreams = new Upstreams();
    closers.push(() => upstreams.close());
    const origin = await server(pieces);
    expect(await get(upstreams, origin)).toBe("200 hi");
    expect(await get(upstreams, origin)).toBe("200 hi");
  });
});

describe("a handler that throws", () => {
  it.each(["onHead", "onData", "onEnd"] as const)("in %s hears of a failure, once", async (where) => {
    const upstreams = new Upstreams();
    closers.push(() => upstreams.close());
    const origin = await server([ANSWER]);
    const failures: string[] = [];
    const at = (name: string): boolean => {
      if (name === where) throw new TypeError("no");
      return true;
    };
    upstreams.send(
      origin,
      { method: "GET", path: "/", headers: [], body: undefined },
      {
        onHead: () => void at("onHead"),
        onData: () => at("onData"),
        onEnd: () => void at("onEnd"),
        onFailure: ({ message }) => void failures.push(message),
      },
    );
    await expect.poll(() => failures).toEqual(["no"]);
  });
});

describe("withoutContinue()", () => {
  it("leaves everything else as it is", () => {
    for (const text of ["", "H", ANSWER, HINTS, "HTTP/1.1 100 Conti", "HTTP/1.1 101 X\r\n\r\n"]) {
      expect(withoutContinue(Buffer.from(text)).toString()).toBe(text);
    }
  });
});
