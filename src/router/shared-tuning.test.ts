import { afterEach, describe, expect, it } from "vitest";
import { createMemoryMembership } from "../cluster/memory-membership.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A cluster in memory that has a place for shared settings, as etcd has. */
function sharing(first: Record<string, string> = {}): Membership {
  const plain = createMemoryMembership();
  const listeners = new Set<() => void>();
  let values: ReadonlyMap<string, string> = new Map(Object.entries(first));
  return {
    ...plain,
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    shared: {
      values: () => values,
      async change(changes) {
        const next = new Map(values);
        for (const [key, value] of changes) {
          if (value === undefined) next.delete(key);
          else next.set(key, value);
        }
        values = next;
        for (const listener of listeners) listener();
      },
    },
  };
}

async function router(membership: Membership, log: Log = SILENT_LOG): Promise<TestRouter> {
  const engine: FakeEngine = await startFakeEngine();
  ends.push(() => engine.close());
  const made = await startTestRouter([testWorker("a", engine.url)], {}, undefined, undefined, { membership, log });
  ends.push(() => made.router.close());
  return made;
}

const POST = { method: "POST" };

describe("shared settings", () => {
  it("are followed by all routers at once, also by one that starts later, and win over the file", async () => {
    const membership = sharing();
    const one = await router(membership);
    const two = await router(membership);
    const query = "router.policy=weighted&router.score_weights.power=0.5&router.admission.max_concurrent_per_replica=3";
    const set = await fetch(`${one.admin}/v1/cgn/config?${query}`, POST);
    expect(await set.json()).toMatchObject({
      writable: true,
      shared: { "router.policy": "weighted" },
      holds: { policy: "weighted", scoreWeights: { kv: 0.55, power: 0.5 } },
    });
    const later = await router(membership);
    for (const { router: each } of [one, two, later]) {
      expect(each.core.settings.policy).toBe("weighted");
      expect(each.core.chooser.perReplica).toBe(3);
    }
    const { settings } = {
      settings: { policy: "random", scoreWeights: { kv: 1, load: 1, power: 1, capacity: 1 }, admission: {} },
    };
    one.router.retune(settings);
    expect(one.router.core.settings.policy).toBe("weighted");
    await fetch(`${two.admin}/v1/cgn/config?router.policy=`, POST);
    expect([one, two].map(({ router: each }) => each.core.settings.policy)).toEqual(["random", "ttft"]);
    const status = (await (await fetch(`${one.admin}/v1/cgn/status`)).json()) as { cluster: { shared: object } };
    expect(status.cluster.shared).toEqual({
      "router.score_weights.power": "0.5",
      "router.admission.max_concurrent_per_replica": "3",
    });
  });

  it("are checked before they are written, and nothing of a wrong change is", async () => {
    const membership = sharing();
    const { admin, router: made } = await router(membership);
    for (const query of [
      "router.policy=fastest",
      "router.policy=random&router.score_weights.kv=-2",
      "router.listen_http=x",
      "",
    ]) {
      const answer = await fetch(`${admin}/v1/cgn/config?${query}`, POST);
      expect(answer.status).toBe(400);
      expect(await answer.text()).toMatch(/Cannot share/);
    }
    expect(membership.shared?.values().size).toBe(0);
    expect(made.core.settings.policy).toBe("ttft");
    const page = await fetch(`${admin}/v1/cgn/config?router.policy=random`, {
      ...POST,
      headers: { origin: "http://evil" },
    });
    expect(page.status).toBe(401);
  });

  it("that this version does not understand do not count, and that is said", async () => {
    const said: string[] = [];
    const log: Log = {
      ...SILENT_LOG,
      once: () => ({ ...SILENT_LOG, warn: (_text, fields) => void said.push(String(fields?.["key"])) }),
    };
    const { router: made, admin } = await router(
      sharing({ "router.policy": "quantum", "router.admission.max_queue": "9" }),
      log,
    );
    expect(made.core.settings.policy).toBe("ttft");
    expect(said).toContain("router.policy");
    expect(await (await fetch(`${admin}/v1/cgn/config`)).json()).toMatchObject({
      holds: { admission: { maxQueue: 9 } },
      problems: [{ key: "router.policy" }],
    });
    expect(await (await fetch(`${admin}/v1/cgn/status`)).json()).toMatchObject({
      cluster: {
        shared: { "router.policy": "quantum" },
        sharedProblems: [{ key: "router.policy", problem: expect.stringContaining("quantum") }],
      },
    });
  });

  it("tell nothing else of the router's settings", async () => {
    const { admin } = await router(sharing());
    const { holds } = (await (await fetch(`${admin}/v1/cgn/config`)).json()) as { holds: object };
    expect(Object.keys(holds).sort()).toEqual(["admission", "policy", "scoreWeights"]);
  });

  it("have no place without etcd: 501 says what to do", async () => {
    const { admin } = await router(createMemoryMembership());
    const answer = await fetch(`${admin}/v1/cgn/config?router.policy=random`, POST);
    expect(answer.status).toBe(501);
    expect(await answer.text()).toMatch(/memory.*cgn reload.*etcd/);
  });
});
