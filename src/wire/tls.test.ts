import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { isCgnError } from "../core/errors.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import { followAgent } from "./agent-client.ts";
import { agentRoutes } from "./agent-server.ts";
import { Agent } from "./gen/cgn/agent/v1/agent_pb.ts";
import { listenWire } from "./listen.ts";
import { testAuthority } from "./testing/certificates.ts";
import { openTls, type TlsFiles, type WireTls } from "./tls.ts";
import { wireTransport } from "./transport.ts";

const dir = await mkdtemp(join(tmpdir(), "cgn-tls-"));
afterAll(() => rm(dir, { recursive: true }));
const ours = await testAuthority(dir, "ours");
const theirs = await testAuthority(dir, "theirs");
const server = await ours.issue("server");
const client = await ours.issue("client");
const stranger = await theirs.issue("stranger");

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Timers by hand: `fire()` runs those that wait. */
function handClock() {
  const waiting = new Set<() => void>();
  const after = (_ms: number, fn: () => void) => {
    waiting.add(fn);
    return () => waiting.delete(fn);
  };
  const fire = () => {
    for (const fn of [...waiting]) {
      waiting.delete(fn);
      fn();
    }
  };
  return { clock: { now: () => performance.now(), wall: () => Date.now(), after }, fire };
}

function tlsOf(
  files: Partial<TlsFiles>,
  log: Log = SILENT_LOG,
  { clock }: { readonly clock: Clock } = handClock(),
): WireTls {
  const tls = openTls({ requireMtls: false, ...files }, { clock, log });
  ends.push(() => tls.close());
  return tls;
}

const SERVER = { certFile: server.cert, keyFile: server.key };
const directory = { list: () => [], subscribe: () => () => {} };

async function serve(tls: WireTls): Promise<string> {
  const made = await listenWire({ routes: agentRoutes(directory), tcp: { host: "127.0.0.1", port: 0 }, tls });
  ends.push(() => made.close());
  return `https://127.0.0.1:${made.port}`;
}

/** Asks the agent's RPC; what came of it. */
async function ask(url: string, tls?: WireTls): Promise<string> {
  const { transport, agent } = wireTransport({ url }, tls);
  ends.push(() => agent.destroy());
  try {
    await createClient(Agent, transport).list({}, { timeoutMs: 3_000 });
    return "answered";
  } catch (error) {
    return String(error);
  }
}

describe("openTls", () => {
  it("openTls() refuses half a configuration, and files that do not fit, with what would be right", async () => {
    const empty = join(dir, "empty.pem");
    await writeFile(empty, "no certificate");
    for (const [files, said] of [
      [{ certFile: server.cert }, /cert_file is set and key_file is not/],
      [{ keyFile: server.key }, /key_file is set and cert_file is not/],
      [{ requireMtls: true, ...SERVER }, /require_mtls is true and no CA is named/],
      [{ requireMtls: true, clientCaFile: ours.file }, /require_mtls is set and cert_file is not/],
      [{ clientCaFile: ours.file }, /client_ca_file is set and cert_file is not/],
      [{ certFile: server.cert, keyFile: client.key }, /do not fit together/],
      [{ certFile: join(dir, "none"), keyFile: server.key }, /\[security\].cert_file = .*ENOENT/],
      [{ caFile: empty }, /ca_file = .*no certificate in PEM form/],
    ] as const) {
      expect(() => tlsOf(files)).toThrow(said);
      expect(() => tlsOf(files)).toThrow(expect.toSatisfy((e: unknown) => isCgnError(e, "TLS_INVALID")));
    }
    expect(tlsOf({}).serverOptions()).toBeUndefined();
  });
});

/** A clock that shows this time. */
const at = (wallMs: number) => ({ clock: { now: () => 0, wall: () => wallMs, after: () => () => {} } });
const DAY = 86_400_000;

describe("the time of certificates", () => {
  it("openTls() refuses a certificate and a CA that are over, or do not count yet, and says when", () => {
    const later = at(Date.now() + 3 * DAY);
    expect(() => tlsOf(SERVER, SILENT_LOG, later)).toThrow(/cert_file = .*it is over since 20.*pki issue/);
    expect(() => tlsOf({ caFile: ours.file }, SILENT_LOG, later)).toThrow(/ca_file = .*it is over since/);
    expect(() => tlsOf(SERVER, SILENT_LOG, at(Date.now() - 3 * DAY))).toThrow(/does not count before 20/);
  });

  it("openTls() says an end that is near, and tells when it is", () => {
    const said: string[] = [];
    const log = { ...SILENT_LOG, warn: (text: string) => void said.push(text) };
    expect(tlsOf(SERVER, log).status()).toMatchObject({ problem: "", refused: 0 });
    expect(said).toEqual([]);
    const { endsAt = 0 } = tlsOf(SERVER, log, at(Date.now() + 0.9 * DAY)).status();
    expect(said).toEqual([expect.stringMatching(/over soon/)]);
    expect(endsAt).toBeGreaterThan(Date.now() + 0.9 * DAY);
  });
});

describe("listenWire with TLS", () => {
  it("listenWire() answers who proves the server by its CA, and nobody is answered in clear text", async () => {
    const url = await serve(tlsOf(SERVER));
    expect(await ask(url, tlsOf({ caFile: ours.file }))).toBe("answered");
    expect(await ask(url, tlsOf({ caFile: theirs.file }))).toMatch(/certificate|issuer/i);
    expect(await ask(url)).toMatch(/certificate|issuer/i);
    expect(await ask(url.replace("https:", "http:"))).not.toBe("answered");
  });

  it("listenWire() speaks gRPC over HTTP/2 in TLS", async () => {
    const url = await serve(tlsOf(SERVER));
    const { ca } = tlsOf({ caFile: ours.file }).clientOptions();
    const transport = createGrpcTransport({ baseUrl: url, nodeOptions: { ca } });
    expect((await createClient(Agent, transport).list({})).workers).toEqual([]);
  });

  it("listenWire() with require_mtls answers only who has a certificate of the client CA", async () => {
    const said: string[] = [];
    const log = { ...SILENT_LOG, warn: (text: string) => void said.push(text) };
    const tls = tlsOf({ ...SERVER, clientCaFile: ours.file, requireMtls: true }, log);
    const url = await serve(tls);
    const trust = { caFile: ours.file };
    expect(await ask(url, tlsOf({ ...trust, certFile: client.cert, keyFile: client.key }))).toBe("answered");
    expect(tls.status().refused).toBe(0);
    expect(await ask(url, tlsOf(trust))).not.toBe("answered");
    expect(await ask(url, tlsOf({ ...trust, certFile: stranger.cert, keyFile: stranger.key }))).not.toBe("answered");
    expect(tls.status().refused).toBe(2);
    expect(said).toEqual([expect.stringMatching(/refused/)]);
  });

  it("listenWire() without require_mtls answers who shows no certificate, and not who shows a wrong one", async () => {
    const url = await serve(tlsOf({ ...SERVER, clientCaFile: ours.file }));
    const trust = { caFile: ours.file };
    expect(await ask(url, tlsOf(trust))).toBe("answered");
    expect(await ask(url, tlsOf({ ...trust, certFile: stranger.cert, keyFile: stranger.key }))).not.toBe("answered");
  });

  it("listenWire() takes ca_file for clients where certificates are required and no other CA is named", async () => {
    const url = await serve(tlsOf({ ...SERVER, caFile: ours.file, requireMtls: true }));
    expect(await ask(url, tlsOf({ caFile: ours.file, certFile: client.cert, keyFile: client.key }))).toBe("answered");
    expect(await ask(url, tlsOf({ caFile: ours.file }))).not.toBe("answered");
  });

  it("listenWire() uses a renewed certificate without a restart, and keeps the old one while the new is bad", async () => {
    const files = { certFile: join(dir, "renewed.crt"), keyFile: join(dir, "renewed.key") };
    await copyFile(server.cert, files.certFile);
    await copyFile(server.key, files.keyFile);
    const said: string[] = [];
    const hand = handClock();
    const log = { ...SILENT_LOG, error: (text: string) => void said.push(text) };
    const url = await serve(tlsOf(files, log, hand));
    expect(await ask(url, tlsOf({ caFile: ours.file }))).toBe("answered");
    await writeFile(files.certFile, "half a certi");
    hand.fire();
    expect(said).toEqual([expect.stringMatching(/not usable: the ones before stay in use/)]);
    expect(await ask(url, tlsOf({ caFile: ours.file }))).toBe("answered");
    await copyFile(stranger.cert, files.certFile);
    await copyFile(stranger.key, files.keyFile);
    hand.fire();
    expect(await ask(url, tlsOf({ caFile: theirs.file }))).toBe("answered");
    expect(await ask(url, tlsOf({ caFile: ours.file }))).toMatch(/certificate|issuer/i);
  });

  it("followAgent() follows an agent over mTLS", async () => {
    const url = await serve(tlsOf({ ...SERVER, clientCaFile: ours.file, requireMtls: true }));
    const tls = tlsOf({ caFile: ours.file, certFile: client.cert, keyFile: client.key });
    const agent = followAgent({ address: { url }, clock: handClock().clock, tls });
    ends.push(() => agent.close());
    for (let i = 0; i < 200 && !agent.health().ok; i++) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(agent.health()).toEqual({ ok: true, reason: "" });
  });
});
