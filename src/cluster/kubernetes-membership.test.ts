import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import type { Member } from "../core/membership.ts";
import { type EndpointSlice, membersOfSlice } from "./endpoint-slices.ts";
import { openKubernetesMembership } from "./kubernetes-membership.ts";
import { eventually, sampleMember } from "./membership.case.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const clock = {
  now: () => performance.now(),
  wall: () => 0,
  after(ms: number, fn: () => void) {
    const timer = setTimeout(fn, Math.min(ms, 5_000));
    return () => clearTimeout(timer);
  },
};

/** Answers as an API server does: a list with its version, and watches that tell each change after theirs. */
class FakeApi {
  readonly asked: string[] = [];
  readonly #server: Server;
  readonly #slices = new Map<string, EndpointSlice>();
  readonly #watches = new Set<ServerResponse>();
  readonly #events: { readonly version: number; readonly line: string }[] = [];
  #version = 100;
  #forgotten = 0;
  status = 200;

  constructor() {
    this.#server = createServer((req, res) => {
      this.asked.push(req.url ?? "");
      if (this.status !== 200) return void res.writeHead(this.status).end('{"kind":"Status"}');
      const query = new URL(req.url ?? "/", "http://x").searchParams;
      if (query.get("watch") === null) {
        const metadata = { resourceVersion: String(this.#version) };
        return void res.end(JSON.stringify({ kind: "EndpointSliceList", metadata, items: [...this.#slices.values()] }));
      }
      res.writeHead(200).flushHeaders();
      const from = Number(query.get("resourceVersion"));
      if (from < this.#forgotten) {
        return void res.end(
          `${JSON.stringify({ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } })}\n`,
        );
      }
      for (const { version, line } of this.#events) if (version > from) res.write(line);
      this.#watches.add(res);
      res.once("close", () => this.#watches.delete(res));
    });
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  set(slice: EndpointSlice): void {
    const name = slice.metadata?.name ?? "";
    const type = this.#slices.has(name) ? "MODIFIED" : "ADDED";
    const versioned = { ...slice, metadata: { ...slice.metadata, resourceVersion: String(++this.#version) } };
    this.#slices.set(name, versioned);
    this.#tell(type, versioned);
  }

  delete(name: string): void {
    const slice = this.#slices.get(name);
    this.#slices.delete(name);
    this.#tell("DELETED", { ...slice, metadata: { ...slice?.metadata, resourceVersion: String(++this.#version) } });
  }

  bookmark(): void {
    this.#tell("BOOKMARK", { metadata: { resourceVersion: String(++this.#version) } });
  }

  /** All that was is forgotten, and watches end. */
  forget(): void {
    this.#forgotten = ++this.#version;
    this.cut();
  }

  cut(): void {
    for (const watch of this.#watches) watch.end();
    this.#watches.clear();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #tell(type: string, object: object): void {
    const line = `${JSON.stringify({ type, object })}\n`;
    this.#events.push({ version: this.#version, line });
    for (const watch of this.#watches) watch.write(line);
  }
}

async function opened() {
  const api = new FakeApi();
  const url = await api.start();
  ends.push(() => api.close());
  const token = () => "secret";
  const options = { selector: "app.kubernetes.io/part-of=cgn", clock, log: SILENT_LOG };
  const membership = await openKubernetesMembership({ ...options, api: { url, namespace: "ai", token } });
  ends.push(() => membership.close());
  return { api, membership };
}

/** One slice for each member: its URL carries what a member of the suite has besides. */
function sliceOf({ kind, id, url, labels }: Member): EndpointSlice {
  const { hostname, port, protocol } = new URL(url);
  return {
    metadata: { name: `${kind}-${id}`, labels: { "app.kubernetes.io/component": kind } },
    ports: [{ name: "rpc", port: Number(port), appProtocol: protocol.slice(0, -1) }],
    endpoints: [
      {
        addresses: [hostname],
        conditions: { ready: true },
        targetRef: { name: id },
        ...(labels?.["zone"] === undefined ? {} : { zone: labels["zone"] }),
      },
    ],
  };
}

const ids = (members: readonly Member[]): string => members.map(({ id }) => id).join(" ");

describe("openKubernetesMembership()", () => {
  it("lists ready endpoints, follows them by a watch, and takes it up where a bookmark said", async () => {
    const { api, membership } = await opened();
    api.set(sliceOf(sampleMember("a")));
    api.set(sliceOf(sampleMember("b", { kind: "kvcached" })));
    await eventually(membership, () => ids(membership.list()) === "a b");
    expect(membership.list()[0]).toEqual(sampleMember("a", { epoch: 0 }));
    api.bookmark();
    api.cut();
    await eventually(membership, () => membership.health().ok);
    api.delete("agent-a");
    await eventually(membership, () => ids(membership.list()) === "b");
    expect(api.asked.filter((url) => !url.includes("watch=1"))).toHaveLength(1);
    expect(api.asked[0]).toBe(
      "/apis/discovery.k8s.io/v1/namespaces/ai/endpointslices?labelSelector=app.kubernetes.io%2Fpart-of%3Dcgn",
    );
  });

  it("reads the list again when the API server has forgotten its version", async () => {
    const { api, membership } = await opened();
    api.set(sliceOf(sampleMember("a")));
    await eventually(membership, () => ids(membership.list()) === "a");
    api.forget();
    api.set(sliceOf(sampleMember("b")));
    await eventually(membership, () => ids(membership.list()) === "a b");
    expect(api.asked.filter((url) => !url.includes("watch=1"))).toHaveLength(2);
  });

  it("keeps who is known while the API server is away, and says so", async () => {
    const { api, membership } = await opened();
    api.set(sliceOf(sampleMember("a")));
    await eventually(membership, () => ids(membership.list()) === "a");
    api.status = 500;
    api.cut();
    await eventually(membership, () => !membership.health().ok);
    expect(ids(membership.list())).toBe("a");
    api.status = 200;
    await eventually(membership, () => membership.health().ok);
  });

  it("says what the service account may not do", async () => {
    const api = new FakeApi();
    const url = await api.start();
    ends.push(() => api.close());
    api.status = 403;
    const options = { selector: "x", clock, log: SILENT_LOG, api: { url, namespace: "ai", token: () => undefined } };
    await expect(openKubernetesMembership(options)).rejects.toMatchObject({
      code: "DEPENDENCY_UNREACHABLE",
      message: expect.stringContaining("may list and watch endpointslices"),
    });
  });
});

describe("membersOfSlice()", () => {
  it("takes ready endpoints at the port named rpc, IPv6 in brackets, and nothing of other services", () => {
    const slice: EndpointSlice = {
      metadata: { name: "s", labels: { "app.kubernetes.io/component": "agent" } },
      ports: [
        { name: "metrics", port: 9092 },
        { name: "rpc", port: 7070, appProtocol: "https" },
      ],
      endpoints: [
        { addresses: ["fd00::5"], nodeName: "n1", targetRef: { name: "pod-1" } },
        { addresses: ["10.0.0.6"], conditions: { ready: false }, targetRef: { name: "pod-2" } },
        { addresses: ["10.0.0.7"], conditions: { ready: null } },
      ],
    };
    expect(membersOfSlice(slice).map(({ id, url, labels }) => [id, url, labels])).toEqual([
      ["pod-1", "https://[fd00::5]:7070", { host: "n1" }],
      ["10.0.0.7", "https://10.0.0.7:7070", undefined],
    ]);
    expect(membersOfSlice({ ...slice, metadata: { name: "s" } })).toEqual([]);
    expect(membersOfSlice({ ...slice, ports: [] })).toEqual([]);
  });
});
