import { execFileSync } from "node:child_process";

const ip = (...args: readonly string[]): string => execFileSync("ip", args, { encoding: "utf8", stdio: "pipe" });

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

/** One host: a network namespace on the common bridge. */
export class Host {
  readonly name: string;
  readonly address: string;
  readonly #namespace: string;
  readonly #link: string;

  constructor(name: string, address: string, bridge: string, n: number) {
    this.name = name;
    this.address = address;
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

  remove(): void {
    ip("netns", "del", this.#namespace);
  }
}

/** A bridge in this namespace, at which this process has an address too. */
export function openNetwork(names: readonly string[]): { readonly hosts: readonly Host[]; close(): void } {
  const bridge = `cg${process.pid % 100_000}`;
  const subnet = `10.${200 + (process.pid % 50)}.${Math.floor(process.pid / 50) % 250}`;
  ip("link", "add", bridge, "type", "bridge");
  ip("addr", "add", `${subnet}.1/24`, "dev", bridge);
  ip("link", "set", bridge, "up");
  const hosts = names.map((name, n) => new Host(name, `${subnet}.${10 + n}`, bridge, n));
  return {
    hosts,
    close() {
      for (const host of hosts) {
        host.killAll();
        host.remove();
      }
      ip("link", "del", bridge);
    },
  };
}
