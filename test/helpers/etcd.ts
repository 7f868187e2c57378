import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "./cgn-process.ts";

/** Why etcd cannot be started here; undefined: it can. Where all tools must be there (.ci/run) its tests are never skipped. */
export function whyNoEtcd(): string | undefined {
  if (process.env["CGN_REQUIRE_TOOLS"] !== undefined) return undefined;
  try {
    execFileSync("etcd", ["--version"], { stdio: "pipe" });
    return undefined;
  } catch {
    return "etcd is not installed (Debian: etcd-server)";
  }
}

export interface EtcdFiles {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Clients must show a certificate. */
  readonly asksClients: boolean;
}

/** One member of an etcd cluster, as a child process with a folder of its own. */
export class EtcdProcess {
  readonly url: string;
  readonly peerUrl: string;
  readonly name: string;
  readonly dir = mkdtempSync(join(tmpdir(), "cgn-etcd-"));
  readonly #o: EtcdOptions;
  #child: ChildProcess | undefined;
  #said = "";

  constructor(options: EtcdOptions) {
    this.#o = options;
    this.name = options.name ?? "one";
    const host = options.host ?? "127.0.0.1";
    this.url = `${options.tls === undefined ? "http" : "https"}://${host}:${options.port}`;
    this.peerUrl = `http://${host}:${options.peerPort}`;
  }

  /** @param cluster all members of a new cluster; by default this one alone */
  start(cluster: readonly EtcdProcess[] = [this]): void {
    const { tls, within = [] } = this.#o;
    const args = [
      ...["--name", this.name, "--data-dir", join(this.dir, "data"), "--log-level", "error"],
      ...["--listen-client-urls", this.url, "--advertise-client-urls", this.url],
      ...["--listen-peer-urls", this.peerUrl, "--initial-advertise-peer-urls", this.peerUrl],
      ...["--initial-cluster", cluster.map(({ name, peerUrl }) => `${name}=${peerUrl}`).join(",")],
      ...["--heartbeat-interval", "100", "--election-timeout", "1000"],
      ...(tls === undefined
        ? []
        : [
            "--cert-file",
            tls.cert,
            "--key-file",
            tls.key,
            ...(tls.asksClients ? ["--trusted-ca-file", tls.ca, "--client-cert-auth"] : []),
          ]),
    ];
    const [command = "", ...rest] = [...within, "etcd", ...args];
    this.#child = spawn(command, rest, { stdio: ["ignore", "pipe", "pipe"] });
    for (const out of [this.#child.stdout, this.#child.stderr])
      out?.on("data", (chunk: Buffer) => (this.#said += String(chunk)));
  }

  output(): string {
    return this.#said;
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGCONT");
    child.kill(signal);
    await gone;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** What it has on disk is gone. */
  wipe(): void {
    rmSync(join(this.dir, "data"), { recursive: true, force: true });
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export interface EtcdOptions {
  readonly port: number;
  readonly peerPort: number;
  readonly name?: string;
  readonly host?: string;
  readonly tls?: EtcdFiles;
  /** A command that runs it, such as `ip netns exec`. */
  readonly within?: readonly string[];
}

/** One etcd on loopback, answering. */
export async function startEtcd(options: Pick<EtcdOptions, "tls"> = {}): Promise<EtcdProcess> {
  const [port = 0, peerPort = 0] = await freePorts(2);
  const etcd = new EtcdProcess({ ...options, port, peerPort });
  etcd.start();
  return etcd;
}

/** Run etcdctl's part: a call of the JSON gateway, for tests that act beside the code under test. */
export async function askEtcd(url: string, path: string, body: object): Promise<Record<string, unknown>> {
  const answer = await fetch(`${url}/v3/${path}`, { method: "POST", body: JSON.stringify(body) });
  return JSON.parse((await answer.text()).split("\n", 1)[0]!) as Record<string, unknown>;
}
