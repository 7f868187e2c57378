import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { type CgnProcess, runCgn, scratch, startCgn, until } from "../helpers/cgn-process.ts";

/** Two hosts as network namespaces, joined by a cable. */
const HOSTS = [
  { name: `cgn${process.pid}a`, device: `cg${process.pid}a`, address: "10.77.0.1" },
  { name: `cgn${process.pid}b`, device: `cg${process.pid}b`, address: "10.77.0.2" },
] as const;

function ip(...args: readonly string[]): void {
  execFileSync("ip", args, { stdio: "pipe" });
}

function takeDown(): void {
  for (const { name } of HOSTS) {
    try {
      ip("netns", "del", name);
    } catch {
      // It was not made.
    }
  }
}

/** Why there can be no namespaces here; undefined: they are made. */
function makeHosts(): string | undefined {
  try {
    const [a, b] = HOSTS;
    execFileSync("curl", ["--version"], { stdio: "pipe" });
    for (const { name } of HOSTS) ip("netns", "add", name);
    ip("link", "add", a.device, "netns", a.name, "type", "veth", "peer", "name", b.device, "netns", b.name);
    for (const { name, device, address } of HOSTS) {
      ip("-n", name, "addr", "add", `${address}/24`, "dev", device);
      for (const link of ["lo", device]) ip("-n", name, "link", "set", link, "up");
    }
    return undefined;
  } catch (error) {
    takeDown();
    return error instanceof Error ? error.message.split("\n")[0] : String(error);
  }
}

const missing = makeHosts();
if (missing !== undefined) console.log(`skipped: an engine on loopback of another host (${missing})`);

describe.skipIf(missing !== undefined)("an engine on loopback of another host", () => {
  const place = scratch();
  const daemons: CgnProcess[] = [];
  const words = (): string => daemons.map((d) => d.output()).join("\n---\n");
  const within = (host: 0 | 1): string[] => ["ip", "netns", "exec", HOSTS[host].name];
  const pki = join(place.dir, "pki");

  const config = (host: 0 | 1, more = ""): string => {
    const { name, address } = HOSTS[host];
    const dir = join(place.dir, name);
    mkdirSync(dir, { recursive: true });
    const q = JSON.stringify;
    return place.file(
      `${name}.toml`,
      `
[security]
ca_file = ${q(join(pki, "ca.crt"))}
client_ca_file = ${q(join(pki, "ca.crt"))}
cert_file = ${q(join(pki, `${name}.crt`))}
key_file = ${q(join(pki, `${name}.key`))}
require_mtls = true
[agent]
node_id = "h${host}"
listen = "${address}:7070"
listen_admin = "127.0.0.1:9092"
kv_uds = ${q(join(dir, "kv.sock"))}
state_dir = ${q(dir)}
log_dir = ${q(join(dir, "logs"))}
[kv]
uds = ${q(join(dir, "kv.sock"))}
listen = "${address}:7071"
index_dir = ${q(join(dir, "index"))}
[router]
listen_http = "${address}:8080"
listen_admin = "127.0.0.1:9091"
${more}`,
    );
  };
  const start = (host: 0 | 1, ...args: readonly string[]): void => {
    daemons.push(startCgn(args, { XDG_RUNTIME_DIR: place.dir }, place.dir, within(host)));
  };
  /** What curl says in the second host's place. */
  const curl = (...args: readonly string[]): string => {
    try {
      const [command = "", ...rest] = [...within(1), "curl", "-s", "--max-time", "60", ...args];
      return execFileSync(command, rest, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    } catch {
      return "";
    }
  };
  const admin = (path: string): string => curl(`http://127.0.0.1:9091${path}`);

  beforeAll(async () => {
    await runCgn(["pki", "init", "--dir", pki]);
    for (const { name, address } of HOSTS) await runCgn(["pki", "issue", name, "--host", address, "--dir", pki]);
    const engine = `
[[engines]]
kind = "vllm"
node_id = "h0"
model = "sim"
url = "http://127.0.0.1:8685"
[engines.vllm]
binary = ${JSON.stringify(join(LAUNCHERS, "sim-vllm.mjs"))}
extra_args = ["--sim-profile", "cpu-small"]
[models.sim]
tokenizer = "bytes"
`;
    const agent = `https://${HOSTS[0].address}:7070`;
    const far = config(1);
    start(0, "agent", "--config", config(0, engine));
    start(1, "kvcached", "--config", far, "--agent", agent);
    start(1, "router", "--config", far, "--agent", agent, "--kvcached", `https://${HOSTS[1].address}:7071`);
    await until("the engine is ready", 150_000, () => /"ready":true/.test(admin("/readyz")) || undefined, words);
  }, 180_000);

  afterAll(async () => {
    for (const daemon of daemons) daemon.child.kill("SIGTERM");
    await Promise.all(daemons.map((d) => d.exit));
    takeDown();
    place.dispose();
  }, 60_000);

  it("is asked through its agent, and what it publishes arrives exactly", async () => {
    const { workers } = JSON.parse(admin("/v1/cgn/status")) as { workers: { url: string }[] };
    expect(workers.map(({ url }) => url)).toEqual([`https://${HOSTS[0].address}:7070/cgn/relay/h0%2Fsim`]);
    const prompt = "The archive keeps glass plates and night logs. ".repeat(6);
    const body = JSON.stringify({ model: "sim", prompt, max_tokens: 4 });
    const own = join(pki, HOSTS[1].name);
    const tls = ["--cacert", join(pki, "ca.crt"), "--cert", `${own}.crt`, "--key", `${own}.key`];
    const ask = (): string =>
      curl(
        ...tls,
        "-i",
        "-H",
        "content-type: application/json",
        "-d",
        body,
        `https://${HOSTS[1].address}:8080/v1/completions`,
      );
    expect(ask(), words()).toContain("200 OK");
    const answer = await until("its prefix is known here", 60_000, () => {
      const said = ask();
      return /x-cgn-predicted-cached-tokens: [1-9]/.test(said) ? said : undefined;
    });
    const predicted = /x-cgn-predicted-cached-tokens: (\d+)/.exec(answer)?.[1];
    expect(/"cached_tokens":(\d+)/.exec(answer)?.[1]).toBe(predicted);
  }, 120_000);

  it("cannot be reached by its own port from there", () => {
    expect(
      curl("--max-time", "3", "-o", "/dev/null", "-w", "%{http_code}", `http://${HOSTS[0].address}:8685/health`),
    ).toBe("");
  });
});
