import { join } from "node:path";
import { newApiKey } from "../../src/access/api-key.ts";
import { type CgnProcess, scratch, until } from "../helpers/cgn-process.ts";
import { EtcdProcess } from "../helpers/etcd.ts";
import { type HostPlan, hostConfig, type Ready, readyOf, startDaemon } from "./daemons.ts";
import { type Host, openNetwork } from "./network.ts";

const PORTS = { agent: 7070, agentAdmin: 9092, kv: 7071, engine: 8000, http: 8080, admin: 9091 } as const;

export type Kind = "agent" | "kvcached" | "router";

/** Three hosts with an agent, a kvcached and an etcd member each, and two hosts with a router. */
export class World {
  readonly #place = scratch();
  readonly #network = openNetwork(["h1", "h2", "h3", "r1", "r2"]);
  readonly engines: readonly Host[] = this.#network.hosts.slice(0, 3);
  readonly routers: readonly Host[] = this.#network.hosts.slice(3);
  readonly etcds: ReadonlyMap<Host, EtcdProcess>;
  readonly badBy = this.#network.badBy;
  /** A key that opens all. */
  readonly key = newApiKey();
  readonly keyFile: string;
  readonly #plans: ReadonlyMap<Host, HostPlan>;
  readonly #files: ReadonlyMap<Host, string>;
  readonly #daemons = new Map<string, CgnProcess>();

  constructor() {
    this.keyFile = this.#place.file("key", `${this.key}\n`);
    this.etcds = new Map(
      this.engines.map((host) => [
        host,
        new EtcdProcess({ name: host.name, host: host.address, port: 2379, peerPort: 2380, within: host.within }),
      ]),
    );
    const etcd = [...this.etcds.values()].map(({ url }) => url);
    this.#plans = new Map(
      this.#network.hosts.map((host) => {
        const { name, address, within } = host;
        const dir = join(this.#place.dir, name);
        return [host, { name, address, within, ports: PORTS, etcd, dir, key: this.key, keepsEngines: true }];
      }),
    );
    this.#files = new Map(
      [...this.#plans].map(([host, plan]) => [host, this.#place.file(`${plan.name}.toml`, hostConfig(plan))]),
    );
  }

  plan(host: Host): HostPlan {
    return this.#plans.get(host)!;
  }

  get routerPlans(): readonly HostPlan[] {
    return this.routers.map((host) => this.plan(host));
  }

  start(host: Host, kind: Kind, options: { readonly skewMs?: number } = {}): void {
    this.#daemons.set(`${host.name} ${kind}`, startDaemon(this.plan(host), this.#files.get(host)!, kind, options));
  }

  /** End one in order. @returns its exit code */
  async stop(host: Host, kind: Kind): Promise<number> {
    const daemon = this.#daemons.get(`${host.name} ${kind}`);
    daemon?.child.kill("SIGTERM");
    return (await daemon?.exit) ?? -1;
  }

  kill(host: Host, kind: Kind): void {
    // The program that enters the namespace becomes the daemon, so its child is the daemon itself.
    this.#daemons.get(`${host.name} ${kind}`)?.child.kill("SIGKILL");
  }

  /** Stop it as a machine is that sleeps or is moved, and let it go on. */
  freeze(host: Host, kind: Kind): () => void {
    const child = this.#daemons.get(`${host.name} ${kind}`)?.child;
    child?.kill("SIGSTOP");
    return () => void child?.kill("SIGCONT");
  }

  /** Until it says that it listens. */
  async whenUp(host: Host, kind: Kind): Promise<void> {
    const daemon = this.#daemons.get(`${host.name} ${kind}`)!;
    const says = (): true | undefined => (/listens? on/.test(daemon.output()) ? true : undefined);
    await until(`${kind} of ${host.name}`, 60_000, says, () => this.words());
  }

  startEtcd(host: Host): void {
    this.etcds.get(host)!.start([...this.etcds.values()]);
  }

  /** What the daemons wrote last. */
  words(): string {
    return [...this.#daemons].map(([name, d]) => `--- ${name}\n${d.output().slice(-1_500)}`).join("\n");
  }

  /** Until these routers all say so. @returns milliseconds since `since` at which the last one did */
  async when(
    what: string,
    at: readonly Host[],
    isSo: (ready: Ready) => boolean,
    { ms = 90_000, since = performance.now() }: { readonly ms?: number; readonly since?: number } = {},
  ): Promise<number> {
    const times = at.map(async (host) => {
      const probe = async (): Promise<number | undefined> => {
        const ready = await readyOf(this.plan(host));
        return ready !== undefined && isSo(ready) ? performance.now() : undefined;
      };
      return await until(`${what} at ${host.name}`, ms, probe, () => this.words());
    });
    return Math.max(...(await Promise.all(times))) - since;
  }

  /** Look at these routers until `stop()`. @returns the fewest engines that any of them had ready */
  watchReady(at: readonly Host[]): { stop(): Promise<number> } {
    let fewest = Number.POSITIVE_INFINITY;
    let stopped = false;
    const look = async (): Promise<void> => {
      while (!stopped) {
        const all = await Promise.all(at.map((host) => readyOf(this.plan(host))));
        for (const each of all) if (each !== undefined) fewest = Math.min(fewest, each.ready);
        await pause(200);
      }
    };
    const looking = look();
    return {
      async stop() {
        stopped = true;
        await looking;
        return fewest;
      },
    };
  }

  async close(): Promise<void> {
    await this.#network.close();
    for (const etcd of this.etcds.values()) await etcd.dispose();
    this.#place.dispose();
  }
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Milliseconds as seconds with one decimal. */
export const seconds = (ms: number): number => Math.round(ms / 100) / 10;
