import { connect, createServer, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { awakeClock } from "../core/awake-clock.ts";
import type { Clock } from "../core/clock.ts";
import { sampleWorker } from "../core/worker.case.ts";
import { followAgent } from "./agent-client.ts";
import { agentRoutes } from "./agent-server.ts";
import { listenWire } from "./listen.ts";

const WORKER = sampleWorker("h1/m");

/** A clock that goes when the test says so. */
function handClock(): { readonly clock: Clock; go(ms: number): void } {
  let now = 0;
  const timers = new Set<{ readonly at: number; readonly fn: () => void }>();
  return {
    clock: {
      now: () => now,
      wall: () => now,
      after(ms, fn) {
        const timer = { at: now + ms, fn };
        timers.add(timer);
        return () => void timers.delete(timer);
      },
    },
    go(ms) {
      now += ms;
      for (const timer of [...timers].filter(({ at }) => at <= now)) {
        if (timers.delete(timer)) timer.fn();
      }
    },
  };
}

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Lets what is on its way arrive. */
async function until(isSo: () => boolean): Promise<void> {
  const end = Date.now() + 20_000;
  while (!isSo()) {
    if (Date.now() > end) throw new Error("not within 20 s");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** An agent behind a way that can be cut: then bytes are lost, and connections neither answered nor refused. */
async function agentBehindAWay() {
  const directory = { list: () => [WORKER], subscribe: () => () => {} };
  const server = await listenWire({ routes: agentRoutes(directory), tcp: { host: "127.0.0.1", port: 0 } });
  let isCut = false;
  const open = new Set<Socket>();
  const way = createServer((near) => {
    const far = connect(server.port!, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on("data", (bytes) => !isCut && to.write(bytes));
      from.on("close", () => to.destroy());
      from.on("error", () => {});
    }
  });
  await new Promise<void>((resolve) => way.listen(0, "127.0.0.1", resolve));
  const closeWay = (): Promise<void> => {
    for (const socket of open) socket.destroy();
    return new Promise((resolve) => void way.close(() => resolve()));
  };
  ends.push(() => server.close(), closeWay);
  const { port } = way.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, cut: () => (isCut = true), closeWay };
}

describe("followAgent()", () => {
  it("followAgent() calls engines of a host down that answers nothing for hostLostMs", async () => {
    const way = await agentBehindAWay();
    const { clock, go } = handClock();
    const remote = followAgent({ address: { url: way.url }, clock, staleMs: 15_000, hostLostMs: 6_000 });
    ends.push(() => remote.close());
    await until(() => remote.list().length === 1);
    way.cut();
    go(3_000);
    await until(() => !remote.health().ok);
    expect(remote.list()[0]).toMatchObject({ state: "ready", unheard: expect.stringContaining("no word from it") });
    go(2_900);
    expect(remote.list()[0]?.state).toBe("ready");
    go(100);
    expect(remote.list()[0]).toMatchObject({ state: "down", reason: expect.stringContaining("last state: ready") });
    expect(remote.list()[0]).not.toHaveProperty("unheard");
  });

  it("followAgent() takes no pause of its own process for the agent's silence", async () => {
    const way = await agentBehindAWay();
    const { clock, go } = handClock();
    const address = { url: way.url };
    const seen = new Set<string>();
    const remote = followAgent({ address, clock: awakeClock(clock), staleMs: 15_000, hostLostMs: 4_500 });
    ends.push(() => remote.close());
    remote.subscribe((workers) => {
      for (const { state, unheard } of workers) seen.add(unheard === undefined ? state : "unheard");
    });
    await until(() => remote.list().length === 1);
    go(60_000);
    go(400);
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect([...seen]).toEqual(["ready"]);
    // A host that says nothing while this process runs is found as before.
    way.cut();
    for (let passed = 0; passed < 8_000; passed += 250) {
      go(250);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => seen.has("down"));
    expect([...seen]).toEqual(["ready", "unheard", "down"]);
  });

  it("followAgent() gives an agent whose host refuses connections the time of a restart", async () => {
    const way = await agentBehindAWay();
    const { clock, go } = handClock();
    const times = { retryMs: 1_000, staleMs: 15_000, hostLostMs: 6_000 };
    const remote = followAgent({ address: { url: way.url }, clock, ...times });
    ends.push(() => remote.close());
    await until(() => remote.list().length === 1);
    let before = remote.health();
    await way.closeWay();
    // It is asked again at 1 s, 3 s and 7 s, and each try is refused.
    for (const pause of [1_000, 2_000, 4_000]) {
      await until(() => !remote.health().ok && remote.health() !== before);
      before = remote.health();
      go(pause);
    }
    await until(() => !remote.health().ok && remote.health() !== before);
    go(7_900);
    expect(remote.list()[0]).toEqual(WORKER);
    go(100);
    expect(remote.list()[0]?.state).toBe("down");
  });
});
