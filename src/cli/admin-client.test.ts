import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createAuthority, issueCertificate } from "../access/certificates.ts";
import { CgnError } from "../core/errors.ts";
import { sendError, sendJson } from "../http/error-body.ts";
import { startTestRouter } from "../router/testing/test-router.ts";
import { adminBase, askAdmin } from "./admin-client.ts";
import type { CliContext } from "./command.ts";
import { askDaemon } from "./reload.ts";
import { systemClock } from "./system-clock.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const cli = { env: {}, cwd: "/", clock: systemClock() } as unknown as CliContext;

/** What a server with these certificates is asked for gets this answer. */
async function place(listener: RequestListener, tls?: { cert: string; key: string }): Promise<string> {
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.push(() => server.close());
  return `${tls === undefined ? "http" : "https"}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function nobody(): Promise<string> {
  const base = await place(() => {});
  await ends.pop()?.();
  return base;
}

const cut = (): Promise<string> => place((req) => req.socket.destroy());

async function untrusted(): Promise<string> {
  const validity = { from: new Date(), days: 1 };
  return place((_req, res) => res.end("{}"), issueCertificate(createAuthority("x", validity), ["127.0.0.1"], validity));
}

describe("askAdmin()", () => {
  it("says why there was no answer, and otherwise what the router says", async () => {
    const refused = new CgnError("DEPENDENCY_UNREACHABLE", "Cannot mark: etcd is lost", {}) as CgnError;
    const says = await place((_req, res) => sendError(res, refused));
    const mute = await place((_req, res) => void res.writeHead(502).end("<html>"));
    for (const [admin, message] of [
      [await nobody(), /^Cannot ask the router at .*: nothing listens there\. Name its admin port with --admin$/],
      [await cut(), /: no answer came\./],
      [await untrusted(), /certificate/],
      [says, /^The router at .* answers 503: Cannot mark: etcd is lost$/],
      [mute, /: it answers 502\./],
    ] as const)
      await expect(askAdmin("/", { admin }, cli)).rejects.toMatchObject({
        code: "DEPENDENCY_UNREACHABLE",
        message: expect.stringMatching(message),
      });
  });
});

describe("adminBase()", () => {
  it("takes an address without a scheme, and nothing that cannot be asked", () => {
    expect(adminBase({})).toBe("http://127.0.0.1:9091");
    expect(adminBase({ admin: "gpu1:9091/" })).toBe("http://gpu1:9091");
    for (const admin of ["bad host", "ftp://gpu1", ":9091", "", "gpu1:99999"])
      expect(() => adminBase({ admin })).toThrow(
        `Cannot ask at --admin "${admin}": it is no URL. Write http://HOST:PORT`,
      );
  });
});

describe("askDaemon()", () => {
  it("asks one place after the other, and says of each why it was not the one", async () => {
    const report = { restarted: [], started: [], stopped: [], untouched: [], later: [] };
    const agent = await place((_req, res) => sendJson(res, 200, report));
    const web = await place((_req, res) => void res.writeHead(404).end("no"));
    const router = await startTestRouter([]);
    ends.push(() => router.router.close());
    const asker = { options: {}, cli };
    expect(await askDaemon("reload", "/v1/cgn/reload", [await nobody(), web, agent], asker)).toEqual(report);
    const places = [await nobody(), await cut(), web, router.admin, await untrusted()];
    const failed = askDaemon("reload", "/v1/cgn/reload", places, asker);
    await expect(failed).rejects.toMatchObject({
      code: "DEPENDENCY_UNREACHABLE",
      message: expect.stringMatching(
        /^Cannot reload: .*: nothing listens there; .*: no answer came; .*: it answers 404, so it is no daemon of cgn; .*: Cannot POST .* Ask its agent's admin port; .*certificate.*\. Start cgn agent/,
      ),
    });
  });

  it("goes no further where a daemon refuses", async () => {
    const invalid = new CgnError("CONFIG_INVALID", "Cannot read c.toml", { problems: [] }) as CgnError;
    const refuses = await place((_req, res) => sendError(res, invalid));
    await expect(
      askDaemon("reload", "/v1/cgn/reload", [refuses, await nobody()], { options: {}, cli }),
    ).rejects.toMatchObject({ code: "CONFIG_INVALID", message: `Cannot reload at ${refuses}: Cannot read c.toml` });
  });
});
