import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { request } from "undici";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import { guardOutgoing } from "./outgoing.ts";
import { testAuthority } from "./testing/certificates.ts";
import { openTls } from "./tls.ts";

const dir = await mkdtemp(join(tmpdir(), "cgn-outgoing-"));
afterAll(() => rm(dir, { recursive: true }));
const ours = await testAuthority(dir, "ours");
const server = await ours.issue("server");
const client = await ours.issue("client");
const clock = { now: () => 0, wall: () => Date.now(), after: () => () => {} };

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** An engine that speaks TLS and asks for certificates; it answers whether it was shown a right one. */
async function engine(): Promise<string> {
  const [cert, key, ca] = await Promise.all([server.cert, server.key, ours.file].map((file) => readFile(file)));
  const options = { cert, key, ca, requestCert: true, rejectUnauthorized: false };
  const made = createServer(options as object, (req, res) => res.end(String((req.socket as TLSSocket).authorized)));
  await new Promise<void>((done) => made.listen(0, "127.0.0.1", done));
  ends.push(
    () => made.closeAllConnections(),
    () => made.close(),
  );
  return `https://127.0.0.1:${(made.address() as AddressInfo).port}`;
}

describe("guardOutgoing", () => {
  it("guardOutgoing() lets fetch() and undici's request() prove an engine by ca_file and show our certificate", async () => {
    const url = await engine();
    await expect(fetch(url)).rejects.toThrow();
    const tls = openTls(
      { caFile: ours.file, certFile: client.cert, keyFile: client.key, requireMtls: false },
      { clock, log: SILENT_LOG },
    );
    const leave = guardOutgoing(tls);
    ends.push(() => tls.close(), leave);
    expect(await (await fetch(url)).text()).toBe("true");
    expect(await (await request(url)).body.text()).toBe("true");
    leave();
    await expect(fetch(url)).rejects.toThrow();
  });

  it("guardOutgoing() goes on with the newest that is left, in whatever order they are taken back", async () => {
    const url = await engine();
    const tls = openTls({ caFile: ours.file, requireMtls: false }, { clock, log: SILENT_LOG });
    const [first, second] = [guardOutgoing(tls), guardOutgoing(tls)];
    first();
    expect(await (await fetch(url)).text()).toBe("false");
    second();
    second();
    await expect(fetch(url)).rejects.toThrow(/fetch failed/);
    const third = guardOutgoing(tls);
    expect(await (await fetch(url)).text()).toBe("false");
    third();
  });
});
