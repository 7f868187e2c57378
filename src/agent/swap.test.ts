import { describe, expect, it } from "vitest";
import type { EngineSettings } from "../config/settings.ts";
import { CgnError } from "../core/errors.ts";
import { nodeId, type WorkerId, workerId } from "../core/ids.ts";
import { SILENT_LOG } from "../core/log.ts";
import type { Demand } from "../core/model-loader.ts";
import type { WorkerInfo, WorkerState } from "../core/worker.ts";
import type { EngineKeeper } from "./engine-keeper.ts";
import type { EngineStatus } from "./engine-status.ts";
import { Swap } from "./swap.ts";
import type { Sleeper } from "./swap-sleep.ts";
import { TestClock } from "./testing/test-clock.ts";

/** A keeper whose process does what the test says, and keeps what it was told. */
class Keeper implements EngineKeeper {
  readonly id: WorkerId;
  readonly told: string[] = [];
  changed: (status: EngineStatus) => void = () => {};
  idleNow = true;
  #state: WorkerState = "down";
  #stopped = true;
  #failed = false;
  #epoch = 0;
  #cordoned = false;

  constructor(name: string) {
    this.id = workerId(`n/${name}`);
  }

  start(): void {
    this.told.push("start");
    this.#epoch += 10;
    this.become("starting");
  }
  async settled(): Promise<void> {}
  async stop(request?: { readonly why?: string }): Promise<void> {
    this.told.push(`stop: ${request?.why}`);
    this.#stopped = true;
    this.become("down");
  }
  cordon(on: boolean): void {
    if (on !== this.#cordoned) this.told.push(on ? "hold" : "release");
    this.#cordoned = on;
    this.changed(this.status());
  }
  async idle(): Promise<void> {
    while (!this.idleNow) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  become(state: WorkerState, failed = false): void {
    this.#state = state;
    this.#failed = failed;
    if (state !== "down") this.#stopped = false;
    this.changed(this.status());
  }
  status(): EngineStatus {
    const state = this.#cordoned && this.#state === "ready" ? "draining" : this.#state;
    const worker = {
      id: this.id,
      node: nodeId("n"),
      models: [this.id.slice(2)],
      state,
      reason: `is ${state}`,
      epoch: this.#epoch,
    };
    const { changed: _c, ...rest } = { changed: 0, spawned: true, starts: 0, droppedLogBytes: 0 };
    return { ...rest, worker: worker as unknown as WorkerInfo, failed: this.#failed, stopped: this.#stopped };
  }
}

interface Lab {
  readonly swap: Swap;
  readonly clock: TestClock;
  readonly a: Keeper;
  readonly b: Keeper;
  /** What routers were told last. */
  state(keeper: Keeper): string;
  worker(keeper: Keeper): WorkerInfo;
  wait(model: string | undefined, uses?: Demand["workers"], router?: string): void;
}

function lab(options: { readonly sleeper?: Sleeper; readonly isLocal?: boolean } = {}): Lab {
  const clock = new TestClock();
  const [a, b] = [new Keeper("a"), new Keeper("b")];
  const told = new Map<WorkerId, WorkerInfo>();
  const settings = (name: string) =>
    ({ model: { name }, onDemand: { gpus: [0], memoryBytes: 0 } }) as unknown as EngineSettings;
  const swap = new Swap({
    members: [
      { keeper: a, settings: settings("a"), ...(options.sleeper === undefined ? {} : { sleeper: options.sleeper }) },
      { keeper: b, settings: settings("b") },
    ],
    settings: { minResidencyMs: 0 },
    clock,
    log: SILENT_LOG,
    isLocal: options.isLocal ?? true,
    publish: (status) => told.set(status.worker.id, swap.announce(status)),
  });
  for (const keeper of [a, b]) {
    keeper.changed = (status) => {
      swap.noticed(status);
      told.set(status.worker.id, swap.announce(status));
    };
    told.set(keeper.id, swap.announce(keeper.status()));
  }
  return {
    swap,
    clock,
    a,
    b,
    state: (keeper) => told.get(keeper.id)!.state,
    worker: (keeper) => told.get(keeper.id)!,
    wait: (model, workers = [], router = "r") =>
      swap.demand(router, { models: model === undefined ? [] : [{ model, waiting: 1, oldestMs: 0 }], workers }),
  };
}

const use = (keeper: Keeper, inFlight: number, chosen: boolean) => ({ worker: keeper.id, inFlight, uses: 1, chosen });
/** Let promises that are due go on. */
const settle = async (): Promise<void> => {
  for (let n = 0; n < 20; n++) await Promise.resolve();
};

/** A is loaded, and nobody waits. */
async function withA(options: Parameters<typeof lab>[0] = {}): Promise<Lab> {
  const l = lab(options);
  l.wait("a");
  l.a.become("ready");
  l.wait(undefined);
  await settle();
  return l;
}

describe("Swap", () => {
  it("announces what is not loaded as loadable, and loads what somebody waits for", async () => {
    const l = lab();
    expect(l.worker(l.a)).toMatchObject({ state: "unloaded", onDemand: true, reason: "loads with a request" });
    l.wait("a");
    expect(l.state(l.a)).toBe("starting");
    l.a.become("ready");
    expect(l.worker(l.a)).toMatchObject({ state: "ready", onDemand: true });
    expect(l.b.told).toEqual([]);
  });

  it("ends an engine only when every router has nothing there and can send nothing there", async () => {
    const l = await withA();
    l.wait("b", [use(l.a, 1, true)], "r1");
    l.wait(undefined, [use(l.a, 0, true)], "r2");
    expect(l.state(l.a)).toBe("draining");
    await settle();
    l.clock.advance(50);
    await settle();
    expect(l.a.told).not.toContain("stop: makes room for b");
    l.wait("b", [use(l.a, 0, false)], "r1");
    l.clock.advance(50);
    await settle();
    expect(l.a.told).not.toContain("stop: makes room for b");
    l.wait(undefined, [use(l.a, 0, false)], "r2");
    l.clock.advance(50);
    await settle();
    expect(l.a.told).toContain("stop: makes room for b");
    expect(l.worker(l.a)).toMatchObject({ state: "unloaded", reason: "makes room for b; loads with a request" });
    expect(l.b.told).toContain("start");
  });

  it("asks the engine's own figures too when routers are elsewhere, and forgets routers that are silent", async () => {
    const l = await withA({ isLocal: false });
    l.a.idleNow = false;
    l.wait("b", [use(l.a, 1, false)], "dead");
    l.wait("b", [use(l.a, 0, false)], "r1");
    for (let n = 0; n < 5; n++) {
      l.clock.advance(1_000);
      l.wait("b", [use(l.a, 0, false)], "r1");
      await settle();
    }
    expect(l.b.told).toEqual([]);
    l.a.idleNow = true;
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(l.b.told).toContain("start");
  });

  it("refuses for a while what could not be loaded, with the reason, and says it after", async () => {
    const l = lab();
    l.wait("a");
    l.a.become("down", true);
    expect(l.worker(l.a).onDemand).toBeUndefined();
    l.wait(undefined);
    l.clock.advance(30_000);
    expect(l.worker(l.a)).toMatchObject({ state: "unloaded", onDemand: true, reason: "the last load failed: is down" });
  });

  it("puts to sleep and wakes, with a higher epoch, and without a second process", async () => {
    const calls: string[] = [];
    const sleeper = { sleep: async () => void calls.push("sleep"), wake: async () => void calls.push("wake") };
    const l = await withA({ sleeper });
    const { epoch } = l.worker(l.a);
    l.wait("b");
    await settle();
    expect(l.worker(l.a)).toMatchObject({ state: "asleep", epoch: epoch + 1 });
    l.b.become("ready");
    l.wait(undefined);
    l.wait("a");
    await settle();
    expect(calls).toEqual(["sleep", "wake"]);
    expect(l.worker(l.a)).toMatchObject({ state: "ready", epoch: epoch + 1 });
    expect(l.a.told.filter((each) => each === "start")).toHaveLength(1);
  });

  it("does not let a sleeping engine that died come back beside the one that has its place", async () => {
    const l = await withA({ sleeper: { sleep: async () => {}, wake: async () => {} } });
    l.wait("b");
    await settle();
    l.b.become("ready");
    l.a.become("down");
    await settle();
    expect(l.a.told.at(-1)).toMatch(/^stop/);
    expect(l.state(l.a)).toBe("unloaded");
  });

  it("ends what does not fall asleep, and starts anew what does not wake", async () => {
    const fails = async (): Promise<void> => {
      throw new CgnError("ENGINE_NOT_READY", "no", {});
    };
    const sleepless = await withA({ sleeper: { sleep: fails, wake: fails } });
    sleepless.wait("b");
    await settle();
    expect(sleepless.state(sleepless.a)).toBe("unloaded");
    const deep = await withA({ sleeper: { sleep: async () => {}, wake: fails } });
    deep.wait("b");
    await settle();
    deep.b.become("ready");
    deep.wait(undefined);
    deep.wait("a");
    await settle();
    expect(deep.a.told.slice(-3)).toEqual(["stop: did not wake", "start", "release"]);
    deep.a.become("ready");
    expect(deep.state(deep.a)).toBe("ready");
  });

  it("ends a sleeping engine when it is unloaded by hand", async () => {
    const l = await withA({ sleeper: { sleep: async () => {}, wake: async () => {} } });
    l.wait("b");
    await settle();
    l.wait(undefined);
    expect(await l.swap.unload("a")).toEqual([l.a.id]);
    await settle();
    expect(l.state(l.a)).toBe("unloaded");
    expect(await l.swap.load("nobody")).toEqual([]);
  });
});
