import { afterEach, describe, expect, it } from "vitest";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import { SILENT_LOG } from "../core/log.ts";
import { sampleWorker } from "../core/worker.case.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { openTls } from "../wire/tls.ts";
import { type ReachedEngines, reachEngines } from "./reach-engines.ts";

const clock = { now: () => 0, wall: () => Date.now(), after: () => () => {} };
const tls = openTls({ requireMtls: false }, { clock, log: SILENT_LOG });
const AGENT = "https://10.0.0.5:7070";
const LOOPBACK = "http://127.0.0.1:8000";
const relay = { path: "/cgn/relay/n%2Fm", always: false };

const opened: ReachedEngines[] = [];
afterEach(() => {
  for (const each of opened.splice(0)) each.close();
});

function reached(
  worker: Partial<WorkerInfo>,
  isOwnHost: () => boolean | Promise<boolean>,
  agentUrl = AGENT,
): { engines: ReachedEngines; directory: ReturnType<typeof createMemoryDirectory> } {
  const directory = createMemoryDirectory([{ ...sampleWorker("n/m"), ...worker }]);
  const engines = reachEngines(directory, { agentUrl, tls, isOwnHost });
  opened.push(engines);
  return { engines, directory };
}

const kv = {
  type: "events",
  endpoint: "tcp://127.0.0.1:5557",
  replay: "tcp://127.0.0.1:5558",
  topic: "",
  dpRank: 0,
} as const;

describe("reachEngines()", () => {
  it("reachEngines() goes through the agent to an engine on loopback of another host, its events by a socket here", () => {
    const { engines } = reached({ url: LOOPBACK, relay, kv }, () => false);
    const [worker] = engines.list();
    expect(worker).toMatchObject({ url: `${AGENT}/cgn/relay/n%2Fm`, state: "ready" });
    expect(worker?.kv).toMatchObject({
      endpoint: expect.stringMatching(/^ipc:\/\/\S+cgn-tunnel/),
      replay: expect.stringMatching(/^ipc:\/\/\S+cgn-tunnel/),
    });
  });

  it("reachEngines() leaves engines alone that are of this host, or have an address of their own", () => {
    expect(reached({ url: LOOPBACK, relay, kv }, () => true).engines.list()[0]).toMatchObject({ url: LOOPBACK, kv });
    const far = { url: "http://10.0.0.5:8000", relay, kv };
    expect(reached(far, () => false).engines.list()[0]).toMatchObject(far);
    expect(reached({ url: LOOPBACK, relay }, () => false, "http://127.0.0.1:7070").engines.list()[0]).toMatchObject({
      url: LOOPBACK,
    });
  });

  it("reachEngines() goes through the agent always where it is so announced, with events as they are on its own host", () => {
    const always = { url: LOOPBACK, relay: { ...relay, always: true }, kv };
    const { engines } = reached(always, () => false, "http://127.0.0.1:7070");
    expect(engines.list()[0]).toMatchObject({ url: "http://127.0.0.1:7070/cgn/relay/n%2Fm", kv });
  });

  it("reachEngines() takes an engine out that its agent does not relay to: the address is another's here", () => {
    const { engines } = reached({ url: LOOPBACK }, () => false);
    expect(engines.list()[0]).toMatchObject({
      state: "down",
      reason: expect.stringMatching(/another host.*require_mtls/),
    });
  });

  it("reachEngines() tells changes, keeps what did not change, and takes over what a name turns out to be", async () => {
    let settle = (_own: boolean): void => {};
    const asked = new Promise<boolean>((resolve) => (settle = resolve));
    const { engines, directory } = reached({ url: LOOPBACK, relay }, () => asked, "https://gpu1:7070");
    expect(engines.list()[0]?.url).toBe(LOOPBACK);
    const told: (readonly WorkerInfo[])[] = [];
    engines.subscribe((workers) => told.push(workers));
    settle(false);
    await asked;
    await Promise.resolve();
    expect(engines.list()[0]?.url).toBe("https://gpu1:7070/cgn/relay/n%2Fm");
    const first = engines.list()[0];
    directory.set({ ...sampleWorker("other"), url: "http://10.0.0.5:1" });
    expect(engines.list()[0]).toBe(first);
    expect(told).toHaveLength(2);
  });
});
