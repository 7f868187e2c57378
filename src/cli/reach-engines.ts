import { createHash } from "node:crypto";
import { lookup } from "node:dns/promises";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { hostname, networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import type { KvSource, WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { isLoopbackHost, parseTcpEndpoint } from "../engines/address.ts";
import type { WireTls } from "../wire/tls.ts";
import { openTunnel } from "../wire/tunnel.ts";

export interface ReachOptions {
  /** Base URL of the agent that announces them. */
  readonly agentUrl: string;
  readonly tls: WireTls;
  /** Is the agent's host this one? Default: by this host's addresses and the system's names. */
  readonly isOwnHost?: (host: string) => boolean | Promise<boolean>;
}

export interface ReachedEngines extends WorkerDirectory {
  close(): void;
}

/**
 * An agent's engines as they are reached from here: those that listen on loopback of another host through the agent's port, their
 * event endpoints by tunnels (Unix sockets here, connections to the agent's port there). One that cannot be reached so is `down`:
 * its own address would be another engine's of this host.
 */
export function reachEngines(directory: WorkerDirectory, options: ReachOptions): ReachedEngines {
  const { agentUrl, isOwnHost = ownHost } = options;
  const base = agentUrl.replace(/\/+$/, "");
  const agentHost = new URL(base).hostname.replace(/^\[|\]$/g, "");
  const tunnels = new Tunnels(base, options.tls);
  const known = new WeakMap<WorkerInfo, WorkerInfo>();
  const listeners = new Set<(workers: readonly WorkerInfo[]) => void>();
  let isOwn: boolean | undefined;
  let listed: readonly WorkerInfo[] = [];
  const reached = (worker: WorkerInfo): WorkerInfo => {
    const before = known.get(worker);
    if (before !== undefined) return before;
    const now = reach(worker, base, isOwn, (endpoint) => tunnels.to(worker, endpoint));
    known.set(worker, now);
    return now;
  };
  const take = (): void => {
    listed = directory.list().map(reached);
    tunnels.keep(directory.list());
    for (const listener of [...listeners]) listener(listed);
  };
  const settle = (own: boolean): void => {
    isOwn = own;
    for (const worker of directory.list()) known.delete(worker);
    take();
  };
  const asked = isLoopbackHost(agentHost) ? true : isOwnHost(agentHost);
  if (typeof asked === "boolean") isOwn = asked;
  else
    void asked.then(
      (own) => own !== isOwn && settle(own),
      () => {},
    );
  listed = directory.list().map(reached);
  const leave = directory.subscribe(take);
  return {
    list: () => listed,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      leave();
      listeners.clear();
      tunnels.close();
    },
  };
}

/** @param isOwn undefined: not known (yet), the engine's own address is taken for good */
function reach(
  worker: WorkerInfo,
  base: string,
  isOwn: boolean | undefined,
  tunnelTo: (endpoint: string) => string,
): WorkerInfo {
  const { relay, url, kv } = worker;
  const isHidden = isOwn === false && isLoopbackHost(hostOf(url));
  if (relay?.always !== true && !isHidden) return worker;
  if (relay === undefined) return unreachable(worker);
  return { ...worker, url: base + relay.path, kv: isOwn === true ? kv : tunnelled(kv, tunnelTo) };
}

function unreachable(worker: WorkerInfo): WorkerInfo {
  const should = "Let its agent ask for certificates ([security].require_mtls), then it relays; or set [engine].url";
  const reason = `it listens on loopback of ${worker.node}, which is another host. ${should}`;
  return { ...worker, state: "down", onDemand: false, returns: false, reason };
}

function tunnelled(kv: KvSource, tunnelTo: (endpoint: string) => string): KvSource {
  if (kv.type === "history") return kv;
  const through = (endpoint: string): string =>
    isLoopbackHost(parseTcpEndpoint(endpoint)?.host ?? "") ? tunnelTo(endpoint) : endpoint;
  return {
    ...kv,
    endpoint: through(kv.endpoint),
    ...(kv.replay === undefined ? {} : { replay: through(kv.replay) }),
  };
}

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "") : "");

/** Is it an address of this host, or a name of one? A name that is not resolved counts as one. */
function ownHost(host: string): boolean | Promise<boolean> {
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address)),
  );
  if (/^[\d.]+$|:/.test(host)) return own.has(host);
  if (host === hostname()) return true;
  return lookup(host, { all: true }).then(
    (found) => found.some(({ address }) => own.has(address) || isLoopbackHost(address)),
    () => true,
  );
}

/** Tunnels of one agent, each a Unix socket in a folder of this process. */
class Tunnels {
  readonly #base: string;
  readonly #tls: WireTls;
  readonly #open = new Map<string, { readonly path: string; close(): void }>();
  #dir: string | undefined;

  constructor(base: string, tls: WireTls) {
    this.#base = base;
    this.#tls = tls;
  }

  /** The ZMQ endpoint here that leads to that one there. */
  to(worker: WorkerInfo, endpoint: string): string {
    const key = keyOf(worker, endpoint);
    let tunnel = this.#open.get(key);
    if (tunnel === undefined) {
      this.#dir ??= mkdtempSync(join(tmpdir(), "cgn-tunnel-"));
      mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
      const path = join(this.#dir, createHash("sha256").update(key).digest("hex").slice(0, 16));
      const url = `${this.#base}${worker.relay?.path}?${new URLSearchParams({ endpoint })}`;
      tunnel = { path, ...openTunnel({ path, url, tls: this.#tls }) };
      this.#open.set(key, tunnel);
    }
    return `ipc://${tunnel.path}`;
  }

  /** Those of workers that are gone are closed. */
  keep(workers: readonly WorkerInfo[]): void {
    const wanted = new Set(
      workers.flatMap((worker) =>
        worker.kv.type === "events"
          ? [worker.kv.endpoint, worker.kv.replay].map((endpoint) => keyOf(worker, endpoint ?? ""))
          : [],
      ),
    );
    for (const [key, tunnel] of this.#open) {
      if (wanted.has(key)) continue;
      tunnel.close();
      this.#open.delete(key);
    }
  }

  close(): void {
    for (const tunnel of this.#open.values()) tunnel.close();
    this.#open.clear();
    if (this.#dir !== undefined) rmSync(this.#dir, { recursive: true, force: true });
  }
}

const keyOf = ({ relay }: WorkerInfo, endpoint: string): string => `${relay?.path} ${endpoint}`;
