import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Agent, type Dispatcher } from "undici";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { type Member, type Membership, memberKey, type NodeMark, sortMembers } from "../core/membership.ts";
import { type EndpointSlice, membersOfSlice } from "./endpoint-slices.ts";
import { createTellers } from "./tellers.ts";

export interface KubernetesOptions {
  /** Undefined: the pod's own. */
  readonly namespace?: string;
  /** Labels of the services. */
  readonly selector: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Default: as every pod is told by its service account. */
  readonly api?: KubernetesApi;
}

/** Where the API server is, and what proves it and us. */
export interface KubernetesApi {
  readonly url: string;
  readonly namespace: string;
  readonly ca?: string;
  /** Read for each request: tokens are renewed. */
  token(): string | undefined;
}

const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const LIST_MS = 5_000;
/** Asked of the API server: after so long it ends a watch, which then goes on anew. */
const WATCH_S = 300;
/** One that outlives that by so much hangs. */
const OVERDUE_MS = 30_000;
const RETRY_MS = 500;
const RETRY_MAX_MS = 10_000;

/**
 * The members behind Kubernetes services: EndpointSlices are read once and watched from there. Kubernetes knows itself who is there, so
 * nobody announces himself; the service account needs `list` and `watch` on `endpointslices`.
 * @throws CgnError DEPENDENCY_UNREACHABLE when the API server does not answer now, or refuses
 */
export async function openKubernetesMembership(options: KubernetesOptions): Promise<Membership> {
  const membership = new KubernetesMembership(options, options.api ?? apiOfPod(options.namespace));
  try {
    await membership.open();
  } catch (error) {
    await membership.close();
    throw error;
  }
  return membership;
}

/** @throws CgnError DEPENDENCY_UNREACHABLE outside a pod */
function apiOfPod(namespace: string | undefined): KubernetesApi {
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" } = process.env;
  const read = (name: string): string => readFileSync(`${ACCOUNT}/${name}`, "utf8").trim();
  try {
    if (host === "") throw new Error("KUBERNETES_SERVICE_HOST is not set");
    return {
      url: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      namespace: namespace ?? read("namespace"),
      ca: read("ca.crt"),
      token: () => read("token"),
    };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const right = "Run it in a pod with a service account, or choose another [cluster].state_backend";
    throw new CgnError(
      "DEPENDENCY_UNREACHABLE",
      `Cannot use Kubernetes: this is no pod (${why}). ${right}`,
      {},
      { cause },
    );
  }
}

/** The API server has forgotten the version that was asked for. */
class Expired extends Error {}

class KubernetesMembership implements Membership {
  readonly #o: KubernetesOptions;
  readonly #api: KubernetesApi;
  readonly #agent: Agent;
  readonly #tellers = createTellers();
  readonly #ended = new AbortController();
  readonly #slices = new Map<string, EndpointSlice>();
  #members: readonly Member[] = [];
  #version: string | undefined;
  #reason = "";

  constructor(options: KubernetesOptions, api: KubernetesApi) {
    this.#o = options;
    this.#api = api;
    this.#agent = new Agent({
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: LIST_MS, ...(api.ca === undefined ? {} : { ca: api.ca }) },
    });
  }

  async open(): Promise<void> {
    await this.#list();
    void this.#run();
  }

  announce(): () => Promise<void> {
    return async () => {};
  }

  list(): readonly Member[] {
    return this.#members;
  }

  marks(): ReadonlyMap<string, NodeMark> {
    return NO_MARKS;
  }

  async mark(node: string): Promise<void> {
    throw new CgnError(
      "NOT_SUPPORTED",
      `Cannot mark node ${node}: Kubernetes keeps no marks of cgn. Use kubectl cordon`,
      {},
    );
  }

  subscribe(listener: () => void): () => void {
    return this.#tellers.add(listener);
  }

  health(): { readonly ok: boolean; readonly reason: string; readonly source: string } {
    return { ok: this.#reason === "", reason: this.#reason, source: `kubernetes ${this.#api.namespace}` };
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#agent.destroy();
  }

  async #run(): Promise<void> {
    for (let attempt = 0; !this.#ended.signal.aborted; attempt++) {
      try {
        if (this.#version === undefined) await this.#list();
        await this.#watch();
        attempt = 0;
      } catch (error) {
        if (this.#ended.signal.aborted) return;
        if (error instanceof Expired) {
          this.#version = undefined;
          attempt = 0;
        } else
          this.#say(error instanceof CgnError ? error.message : `${error instanceof Error ? error.message : error}`);
      }
      if (this.#ended.signal.aborted) return;
      const pause = attempt === 0 ? 50 : Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(attempt - 1, 10));
      await new Promise<void>((resolve) => void this.#o.clock.after(pause, resolve));
    }
  }

  async #list(): Promise<void> {
    const answer = await this.#ask("", LIST_MS);
    const { items = [], metadata } = (await answer.body.json()) as {
      readonly items?: readonly EndpointSlice[];
      readonly metadata?: { readonly resourceVersion?: string };
    };
    this.#slices.clear();
    for (const slice of items) this.#slices.set(slice.metadata?.name ?? "", slice);
    this.#version = metadata?.resourceVersion ?? "0";
    this.#say("");
    this.#publish();
  }

  async #watch(): Promise<void> {
    const query = `&watch=1&allowWatchBookmarks=true&timeoutSeconds=${WATCH_S}&resourceVersion=${this.#version}`;
    const answer = await this.#ask(query, WATCH_S * 1_000 + OVERDUE_MS);
    this.#say("");
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of answer.body) {
      rest += decoder.decode(chunk as Uint8Array, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.trim() !== "") this.#take(JSON.parse(line));
      this.#publish();
    }
  }

  #take({
    type,
    object,
  }: {
    readonly type?: string;
    readonly object?: EndpointSlice & { readonly code?: number };
  }): void {
    if (type === "ERROR") {
      if (object?.code === 410) throw new Expired();
      throw new Error(`Kubernetes ended the watch: ${JSON.stringify(object)}`);
    }
    this.#version = object?.metadata?.resourceVersion ?? this.#version;
    const name = object?.metadata?.name ?? "";
    if (type === "DELETED") this.#slices.delete(name);
    else if ((type === "ADDED" || type === "MODIFIED") && object !== undefined) this.#slices.set(name, object);
  }

  async #ask(query: string, timeoutMs: number): Promise<Dispatcher.ResponseData> {
    const { url, namespace } = this.#api;
    const selector = encodeURIComponent(this.#o.selector);
    const path = `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/endpointslices?labelSelector=${selector}${query}`;
    const late = new AbortController();
    const cancel = this.#o.clock.after(timeoutMs, () => late.abort(new Error("it does not answer")));
    const signal = AbortSignal.any([late.signal, this.#ended.signal]);
    try {
      const token = this.#api.token();
      const headers = {
        accept: "application/json",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      };
      const answer = await this.#agent.request({ origin: url, path, method: "GET", headers, signal });
      answer.body.once("close", cancel);
      if (answer.statusCode === 200) return answer;
      const text = (await answer.body.text()).slice(0, 300);
      if (answer.statusCode === 410) throw new Expired();
      throw new Error(`HTTP ${answer.statusCode} ${text}`);
    } catch (cause) {
      cancel();
      if (cause instanceof Expired) throw cause;
      const why = cause instanceof Error ? cause.message : String(cause);
      const right = /HTTP 40[13]/.test(why)
        ? "Give the service account a role that may list and watch endpointslices (discovery.k8s.io)"
        : "Look whether the API server is there";
      const message = `Cannot list EndpointSlices of ${namespace} at ${url}: ${why}. ${right}`;
      throw new CgnError("DEPENDENCY_UNREACHABLE", message, {}, { cause });
    }
  }

  #say(reason: string): void {
    if (reason === this.#reason) return;
    const { log } = this.#o;
    if (reason === "") log.info("Kubernetes answers again");
    else if (this.#reason === "") log.warn("Kubernetes is lost: the daemons that are known stay known", { reason });
    this.#reason = reason;
    this.#tellers.tell();
  }

  /** An endpoint may stand in two slices while it moves between them. */
  #publish(): void {
    const byKey = new Map(
      [...this.#slices.values()].flatMap(membersOfSlice).map((member) => [memberKey(member), member]),
    );
    const next = sortMembers(byKey.values());
    if (isDeepStrictEqual(next, this.#members)) return;
    this.#members = next;
    this.#tellers.tell();
  }
}

const NO_MARKS: ReadonlyMap<string, NodeMark> = new Map();
