import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const ip = (...args: readonly string[]): string => execFileSync("ip", args, { encoding: "utf8", stdio: "pipe" });

const works = (command: string, ...args: readonly string[]): boolean => {
  try {
    execFileSync(command, args, { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
};

/** Why a network of hosts cannot be made here; undefined: it can. */
export function whyNoNetwork(): string | undefined {
  const name = `cgnx${process.pid}`;
  try {
    ip("netns", "add", name);
    ip("netns", "del", name);
    return undefined;
  } catch {
    return "network namespaces need Linux, iproute2 and root";
  }
}

export interface Badness {
  /** One way. */
  readonly delayMs: number;
  readonly jitterMs: number;
  readonly lossPercent: number;
}

/** By what links are made bad here: the kernel's netem, else a program between two tap devices. Undefined: not at all. */
export type BadBy = "netem" | "tap";

/** One host: a network namespace on the common bridge. */
export class Host {
  readonly name: string;
  readonly address: string;
  readonly #namespace: string;
  readonly #bridge: string;
  readonly #link: string;
  #bad: { readonly by: BadBy; readonly cable?: ChildProcess } | undefined;

  constructor(name: string, address: string, bridge: string, n: number) {
    this.name = name;
    this.address = address;
    this.#bridge = bridge;
    this.#namespace = `${bridge}-${name}`;
    this.#link = `${bridge}v${n}`;
    ip("netns", "add", this.#namespace);
    ip("link", "add", this.#link, "type", "veth", "peer", "name", "eth0", "netns", this.#namespace);
    ip("link", "set", this.#link, "master", bridge, "up");
    ip("-n", this.#namespace, "addr", "add", `${address}/24`, "dev", "eth0");
    ip("-n", this.#namespace, "link", "set", "eth0", "up");
    ip("-n", this.#namespace, "link", "set", "lo", "up");
  }

  /** A command that runs something on it. */
  get within(): readonly string[] {
    return ["ip", "netns", "exec", this.#namespace];
  }

  /** Its cable. Whoever is at the other end hears nothing, not even that connections end. */
  cable(plugged: boolean): void {
    ip("link", "set", this.#link, plugged ? "up" : "down");
  }

  /** Packets to that host are lost, and those from it. */
  cut(other: Host, isCut: boolean): void {
    const verb = isCut ? "add" : "del";
    ip("-n", this.#namespace, "route", verb, "blackhole", `${other.address}/32`);
    ip("-n", other.#namespace, "route", verb, "blackhole", `${this.address}/32`);
  }

  /** From now on its link is bad, both ways. */
  async spoil({ delayMs, jitterMs, lossPercent }: Badness, by: BadBy): Promise<void> {
    if (by === "netem") {
      const how = ["delay", `${delayMs}ms`, `${jitterMs}ms`, "loss", `${lossPercent}%`];
      for (const at of [[this.#link], ["eth0", this.#namespace]] as const) {
        const [dev, within] = at;
        const tc = ["tc", ...(within === undefined ? [] : ["-n", within]), "qdisc", "add", "dev", dev, "root", "netem"];
        execFileSync(tc[0]!, [...tc.slice(1), ...how], { stdio: "pipe" });
      }
      this.#bad = { by };
      return;
    }
    const [near, far, side] = [`${this.#link}a`, `${this.#link}b`, `${this.#link}s`];
    const args = [near, far, ...[delayMs, jitterMs, lossPercent].map(String), String(near.length)];
    const cable = spawn("python3", [join(import.meta.dirname, "cable.py"), ...args], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    await once(cable.stdout!, "data");
    ip("link", "add", side, "type", "bridge");
    ip("link", "set", side, "up");
    ip("link", "set", near, "master", this.#bridge, "up");
    ip("link", "set", far, "master", side, "up");
    ip("link", "set", this.#link, "master", side);
    this.#bad = { by, cable };
  }

  /** Its link is good again. */
  async mend(): Promise<void> {
    const bad = this.#bad;
    this.#bad = undefined;
    if (bad === undefined) return;
    if (bad.by === "netem") {
      execFileSync("tc", ["qdisc", "del", "dev", this.#link, "root"], { stdio: "pipe" });
      execFileSync("tc", ["-n", this.#namespace, "qdisc", "del", "dev", "eth0", "root"], { stdio: "pipe" });
      return;
    }
    ip("link", "set", this.#link, "master", this.#bridge);
    const gone = once(bad.cable!, "exit");
    bad.cable?.stdin?.end();
    await gone;
    ip("link", "del", `${this.#link}s`);
  }

  /** All processes that run on it, killed at once. */
  killAll(): void {
    for (const pid of ip("netns", "pids", this.#namespace).split("\n").filter(Boolean)) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
  }

  async remove(): Promise<void> {
    this.killAll();
    await this.mend();
    ip("netns", "del", this.#namespace);
  }
}

export interface Network {
  readonly hosts: readonly Host[];
  readonly badBy: BadBy | undefined;
  close(): Promise<void>;
}

/** A bridge in this namespace, at which this process has an address too. */
export function openNetwork(names: readonly string[]): Network {
  const bridge = `cg${process.pid % 100_000}`;
  const subnet = `10.${200 + (process.pid % 50)}.${Math.floor(process.pid / 50) % 250}`;
  ip("link", "add", bridge, "type", "bridge");
  ip("addr", "add", `${subnet}.1/24`, "dev", bridge);
  ip("link", "set", bridge, "up");
  const hosts = names.map((name, n) => new Host(name, `${subnet}.${10 + n}`, bridge, n));
  return {
    hosts,
    badBy: howToSpoil(bridge),
    async close() {
      for (const host of hosts) await host.remove();
      ip("link", "del", bridge);
    },
  };
}

function howToSpoil(device: string): BadBy | undefined {
  if (works("tc", "qdisc", "add", "dev", device, "root", "netem", "delay", "0ms")) {
    execFileSync("tc", ["qdisc", "del", "dev", device, "root"], { stdio: "pipe" });
    return "netem";
  }
  const canTap = works("python3", "-c", 'open("/dev/net/tun", "r+b", buffering=0)');
  return canTap ? "tap" : undefined;
}
