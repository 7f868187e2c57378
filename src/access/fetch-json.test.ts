import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fetchJson } from "./fetch-json.ts";

let server: Server;
let url = "";
const asked: string[] = [];

beforeAll(async () => {
  server = createServer((req, res) => {
    asked.push(req.url ?? "");
    if (req.url === "/ok") res.end('{"keys":[]}');
    else if (req.url === "/moved") res.writeHead(302, { location: `${url}/ok` }).end();
    else if (req.url === "/html") res.end("<html>");
    else if (req.url === "/large") res.end(`[${"0,".repeat(1024 * 1024)}0]`);
    else res.writeHead(503).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

describe("fetchJson()", () => {
  it("reads a document", async () => expect(await fetchJson(`${url}/ok`)).toEqual({ keys: [] }));

  it("follows no redirect: keys from elsewhere would be somebody else's", async () => {
    asked.length = 0;
    await expect(fetchJson(`${url}/moved`)).rejects.toThrow(/answers 302, a redirect/);
    expect(asked).toEqual(["/moved"]);
  });

  it.each([
    ["/html", /no JSON/],
    ["/large", /more than 1048576 bytes/],
    ["/none", /answers 503/],
  ])("refuses %s", async (path, said) => {
    await expect(fetchJson(url + path)).rejects.toThrow(said);
  });

  it("says that nobody is there", async () => {
    await expect(fetchJson("http://127.0.0.1:9/keys")).rejects.toThrow(/does not answer/);
  });
});
