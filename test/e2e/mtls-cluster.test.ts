import { copyFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hashApiKey } from "../../src/access/api-key.ts";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { type CgnProcess, freePorts, runCgn, scratch, startCgn, until } from "../helpers/cgn-process.ts";
import { EtcdProcess, whyNoEtcd } from "../helpers/etcd.ts";

const missing = whyNoEtcd();
if (missing !== undefined) console.log(`skipped: a cluster with certificates on every hop (${missing})`);

const KEY = "cgn-of-the-operator";

interface Pems {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

describe.skipIf(missing !== undefined)("a cluster with certificates on every hop", () => {
  const place = scratch();
  const pki = join(place.dir, "pki");
  const own = join(place.dir, "own");
  const daemons = new Map<"agent" | "kvcached" | "router", CgnProcess>();
  const ports = { etcd: 0, peer: 0, agent: 0, agentAdmin: 0, kv: 0, engine: 0, http: 0, admin: 0 };
  let etcd: EtcdProcess;
  let config = "";
  const clients: Agent[] = [];
  const words = (): string => [...daemons].map(([name, d]) => `--- ${name}\n${d.output()}`).join("\n");

  const issue = async (dir: string, name: string): Promise<Pems> => {
    const out = join(place.dir, dir, "out");
    mkdirSync(out, { recursive: true });
    const made = await runCgn(["pki", "issue", name, "--dir", join(place.dir, dir), "--out", out]);
    if (made.code !== 0) throw new Error(made.err);
    return { ca: join(place.dir, dir, "ca.crt"), cert: join(out, `${name}.crt`), key: join(out, `${name}.key`) };
  };
  const clientOf = ({ ca, cert, key }: Partial<Pems>): Agent => {
    const read = (file: string | undefined): string | undefined =>
      file === undefined ? undefined : readFileSync(file, "utf8");
    const made = new Agent({ allowH2: false, connect: { ca: read(ca), cert: read(cert), key: read(key) } as object });
    clients.push(made);
    return made;
  };
  const ask = async (dispatcher: Agent, url: string, init: object = {}): Promise<{ status: number; body: string }> => {
    try {
      const signal = AbortSignal.timeout(60_000);
      const { statusCode, body } = await request(url, { dispatcher, signal, ...init });
      return { status: statusCode, body: await body.text() };
    } catch (error) {
      return { status: 0, body: String(error) };
    }
  };
  const headers = { "content-type": "application/json", authorization: `Bearer ${KEY}` };
  const completion = (dispatcher: Agent, more: object = {}) =>
    ask(dispatcher, `https://127.0.0.1:${ports.http}/v1/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model: "sim", prompt: "The archive keeps glass plates.", max_tokens: 4, ...more }),
    });
  /** Serial number of the certificate that a port serves with. */
  const served = (port: number, { ca, cert, key }: Pems): Promise<string> =>
    new Promise((resolve) => {
      const files = { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) };
      const socket = connect({ host: "127.0.0.1", port, ...files }, () => {
        resolve(socket.getPeerCertificate().serialNumber);
        socket.destroy();
      });
      socket.on("error", () => resolve(""));
    });
  let person: Pems;
  let friend: Agent;

  beforeAll(async () => {
    const found = await freePorts(8);
    for (const [n, name] of (Object.keys(ports) as (keyof typeof ports)[]).entries()) ports[name] = found[n] ?? 0;
    await runCgn(["pki", "init", "--dir", pki]);
    const [host, client] = [await issue("pki", "host"), await issue("pki", "person")];
    person = client;
    friend = clientOf(person);
    mkdirSync(own);
    copyFileSync(host.cert, join(own, "tls.crt"));
    copyFileSync(host.key, join(own, "tls.key"));
    etcd = new EtcdProcess({ port: ports.etcd, peerPort: ports.peer, tls: { ...host, asksClients: true } });
    etcd.start();
    const quoted = JSON.stringify;
    config = place.file(
      "cgn.toml",
      `
[cluster]
etcd_endpoints = ["https://127.0.0.1:${ports.etcd}"]
etcd_cert_file = ${quoted(host.cert)}
etcd_key_file = ${quoted(host.key)}
advertise_host = "127.0.0.1"
[security]
ca_file = ${quoted(host.ca)}
client_ca_file = ${quoted(host.ca)}
cert_file = ${quoted(join(own, "tls.crt"))}
key_file = ${quoted(join(own, "tls.key"))}
require_mtls = true
[auth]
enabled = true
[[auth.keys]]
hash = "${hashApiKey(KEY)}"
scopes = "inference,metrics,admin"
[router]
listen_http = "127.0.0.1:${ports.http}"
listen_admin = "0.0.0.0:${ports.admin}"
[agent]
node_id = "h1"
listen = "0.0.0.0:${ports.agent}"
listen_admin = "0.0.0.0:${ports.agentAdmin}"
relay = "always"
kv_uds = ${quoted(join(place.dir, "kv.sock"))}
state_dir = ${quoted(place.dir)}
log_dir = ${quoted(join(place.dir, "logs"))}
[kv]
uds = ${quoted(join(place.dir, "kv.sock"))}
listen = "0.0.0.0:${ports.kv}"
index_dir = ${quoted(join(place.dir, "index"))}
[[engines]]
kind = "vllm"
node_id = "h1"
model = "sim"
url = "http://127.0.0.1:${ports.engine}"
[engines.vllm]
binary = ${quoted(join(LAUNCHERS, "sim-vllm.mjs"))}
extra_args = ["--sim-profile", "cpu-small"]
[models.sim]
tokenizer = "bytes"
`,
    );
    for (const kind of ["kvcached", "agent", "router"] as const) {
      daemons.set(kind, startCgn([kind, "--config", config], { XDG_RUNTIME_DIR: place.dir }, place.dir));
    }
    await until(
      "the engine is ready",
      150_000,
      async () => {
        const { status } = await ask(friend, `https://127.0.0.1:${ports.admin}/readyz`);
        return status === 200 ? true : undefined;
      },
      words,
    );
  }, 180_000);

  afterAll(async () => {
    for (const daemon of daemons.values()) daemon.child.kill("SIGTERM");
    await Promise.all([...daemons.values()].map((d) => d.exit));
    await etcd?.dispose();
    await Promise.all(clients.map((each) => each.destroy()));
    place.dispose();
  }, 60_000);

  it("answers through the relay, and commands of the operator get in with certificate and key", async () => {
    expect(await completion(friend), words()).toMatchObject({ status: 200 });
    const keyFile = place.file("ops.key", KEY);
    // Without [cluster] and engines: only what proves the other side.
    const cert = `[security]\nca_file = ${JSON.stringify(person.ca)}\ncert_file = ${JSON.stringify(person.cert)}\nkey_file = ${JSON.stringify(person.key)}\n`;
    const options = ["--key-file", keyFile, "--config", place.file("ops.toml", cert)];
    const said = await runCgn(["status", "--json", "--admin", `https://127.0.0.1:${ports.admin}`, ...options]);
    expect(said.err).toBe("");
    const { engines } = JSON.parse(said.out) as { engines: { url: string }[] };
    expect(engines.map(({ url }) => url)).toEqual([`https://127.0.0.1:${ports.agent}/cgn/relay/h1%2Fsim`]);
    const blind = await runCgn(
      ["status", "--admin", `https://127.0.0.1:${ports.admin}`, "--key-file", keyFile],
      {},
      own,
    );
    expect(blind).toMatchObject({ code: 4, err: expect.stringMatching(/certificate/i) });
  }, 60_000);

  it("refuses who has no certificate, or a stranger's, on each hop", async () => {
    await runCgn(["pki", "init", "--dir", join(place.dir, "theirs")]);
    const stranger = await issue("theirs", "stranger");
    const intruders = [clientOf({ ca: person.ca }), clientOf({ ...stranger, ca: person.ca })];
    const doors = [
      [ports.http, "/v1/models"],
      [ports.admin, "/metrics"],
      [ports.agent, "/cgn.agent.v1.Agent/List"],
      [ports.agent, "/cgn/relay/h1%2Fsim/v1/models"],
      [ports.agentAdmin, "/metrics"],
      [ports.kv, "/metrics"],
      [ports.etcd, "/version"],
    ] as const;
    for (const [port, path] of doors) {
      const isAdmin = port === ports.admin || port === ports.agentAdmin;
      for (const [n, intruder] of intruders.entries()) {
        // Admin ports tell their health to who shows none, and cut who shows a stranger's.
        const refusal = isAdmin && n === 0 ? 401 : 0;
        const { status, body } = await ask(intruder, `https://127.0.0.1:${port}${path}`);
        expect([port, path, status, body]).toEqual([port, path, refusal, expect.any(String)]);
        if (refusal === 0) continue;
        const ready = await ask(intruder, `https://127.0.0.1:${port}/readyz`);
        expect(ready).toEqual({ status: 200, body: '{"ready":true}' });
      }
      expect((await ask(friend, `http://127.0.0.1:${port}${path}`)).status, `${path} in clear text`).not.toBe(200);
      const { status } = await ask(friend, `https://127.0.0.1:${port}${path}`);
      expect([path, status > 0]).toEqual([path, true]);
    }
    const text = (await ask(friend, `https://127.0.0.1:${ports.agentAdmin}/metrics`)).body;
    expect(Number(/^cgn_tls_refused_total (\d+)/m.exec(text)?.[1])).toBeGreaterThanOrEqual(2);
  }, 60_000);

  it("takes renewed certificates everywhere while requests flow, and none of them fails", async () => {
    const listening = [ports.http, ports.admin, ports.agent, ports.agentAdmin, ports.kv];
    const before = await Promise.all(listening.map((port) => served(port, person)));
    expect(before.every((serial) => serial !== "" && serial === before[0])).toBe(true);
    const next = await issue("pki", "host2");
    let isDone = false;
    const answers: { status: number; body: string }[] = [];
    const flow = (async () => {
      while (!isDone) answers.push(await completion(friend));
    })();
    for (const [from, to] of [
      [next.cert, "tls.crt"],
      [next.key, "tls.key"],
    ] as const) {
      writeFileSync(join(own, `${to}.new`), readFileSync(from));
      renameSync(join(own, `${to}.new`), join(own, to));
    }
    await until(
      "all serve the new one",
      60_000,
      async () => {
        const now = await Promise.all(listening.map((port) => served(port, person)));
        return now.every((serial) => serial !== "" && serial !== before[0]) ? true : undefined;
      },
      words,
    );
    for (let n = 0; n < 5; n++) answers.push(await completion(friend));
    isDone = true;
    await flow;
    expect(answers.length).toBeGreaterThan(5);
    expect(
      answers.filter(({ status }) => status !== 200),
      words(),
    ).toEqual([]);
  }, 120_000);

  it("tells a stream whose agent is killed so, and answers again once an agent is back", async () => {
    const { body } = await request(`https://127.0.0.1:${ports.http}/v1/completions`, {
      dispatcher: friend,
      method: "POST",
      headers,
      body: JSON.stringify({ model: "sim", prompt: "long", max_tokens: 3_000, ignore_eos: true, stream: true }),
    });
    let text = "";
    let isKilled = false;
    for await (const chunk of body) {
      text += String(chunk);
      if (isKilled || !text.includes("data:")) continue;
      isKilled = true;
      daemons.get("agent")?.child.kill("SIGKILL");
    }
    expect(text).toMatch(/event: error|"error":\{/);
    expect(text).not.toContain("[DONE]");
    await daemons.get("agent")?.exit;
    daemons.set("agent", startCgn(["agent", "--config", config], { XDG_RUNTIME_DIR: place.dir }, place.dir));
    await until(
      "an answer",
      120_000,
      async () => ((await completion(friend)).status === 200 ? true : undefined),
      words,
    );
  }, 150_000);

  it("does not start with files that do not fit together", async () => {
    const wrong = place.file("wrong.toml", readFileSync(config, "utf8").replace("tls.key", "../pki/out/person.key"));
    const refused = await runCgn(["kvcached", "--config", wrong]);
    expect(refused).toMatchObject({ code: 5, err: expect.stringMatching(/do not fit together/) });
  }, 60_000);
});
