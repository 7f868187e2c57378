import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Agent, type AgentOptions, createAgent } from "../../src/agent/agent.ts";
import { settingsFrom } from "../../src/agent/testing/settings.ts";
import { createMemoryDirectory, type MemoryDirectory } from "../../src/cluster/memory-directory.ts";
import type { Settings } from "../../src/config/settings.ts";
import { CgnError } from "../../src/core/errors.ts";
import { type WorkerId, workerId } from "../../src/core/ids.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { CLOCK, fakePlan, freePort, runs, until } from "../../src/process/testing/harness.ts";

let dir: string;
let directory: MemoryDirectory;
let ports: Readonly<Record<string, number>>;
let agents: Agent[];
/** Requests on a worker, as a router would know them. */
let busy: Map<WorkerId, number>;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "cgn-reload-"));
  directory = createMemoryDirectory();
  ports = await portsApart(["a", "b", "c", "d"]);
  agents = [];
  busy = new Map();
});
afterEach(async () => {
  busy.clear();
  await Promise.all(agents.map((agent) => agent.stop()));
  // What was kept runs on without its agent.
  for (const name of readdirSync(dir).filter((each) => each.endsWith(".pid.json"))) {
    const { pid } = JSON.parse(readFileSync(join(dir, name), "utf8")) as { pid: number };
    if (runs(pid)) process.kill(-pid, "SIGKILL");
  }
  rmSync(dir, { recursive: true, force: true });
});

const ID = { a: workerId("n/a"), b: workerId("n-1/b"), c: workerId("n-2/c") };

/** Free ports whose side ports meet neither each other nor one of them, so that these files need not know of each other. */
async function portsApart(names: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const blocks = new Set<number>();
  const found: Record<string, number> = {};
  for (const name of names) {
    for (;;) {
      const port = await freePort();
      const touched = [port % 199, Math.floor((port - 20_000) / 64)];
      if (touched.some((block) => blocks.has(block)) || touched[0] === touched[1]) continue;
      for (const block of touched) blocks.add(block);
      found[name] = port;
      break;
    }
  }
  return found;
}

/** A file with an engine a name; its flags are the fake engine's. */
function file(
  engines: Readonly<Record<string, readonly string[]>>,
  head = '[agent]\nnode_id = "n"\n',
  more = "",
): Settings {
  const entries = Object.keys(engines).map(
    (name) =>
      `[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:${ports[name]}"\nmodel = "${name}"\n${more.replaceAll("NAME", name)}`,
  );
  const models = Object.entries(engines).map(
    ([name, flags]) => `[models.${name}]\nextra_args = ${JSON.stringify(flags)}\n`,
  );
  return settingsFrom(dir, `${head}${entries.join("")}${models.join("")}`);
}

function make(settings: Settings, over: Partial<AgentOptions> = {}): Agent {
  const agent = createAgent({
    settings,
    directory,
    clock: CLOCK,
    log: SILENT_LOG,
    env: process.env,
    policy: { backoffMs: 20 },
    inflight: (id) => busy.get(id) ?? 0,
    plan: ({ slot, model }) => fakePlan(slot.port, model.extraArgs),
    ...over,
  });
  agents.push(agent);
  return agent;
}

const states = (): string[] => directory.list().map(({ id, state }) => `${id} ${state}`);
const pid = (agent: Agent, id: WorkerId): number => agent.keeper(id)?.status().pid ?? 0;
const epoch = (id: WorkerId): number => directory.list().find((worker) => worker.id === id)?.epoch ?? 0;

describe("Agent.reload()", () => {
  it("drains and restarts the engine whose section changed, and leaves the others' processes alone", async () => {
    const agent = make(file({ a: [], b: [], c: [] }));
    agent.start();
    await agent.settled();
    const before = [pid(agent, ID.a), pid(agent, ID.b), pid(agent, ID.c)];
    const epochs = [epoch(ID.a), epoch(ID.b)];
    busy.set(ID.a, 1);
    const seen = new Set<string>();
    agent.subscribe(({ worker }) => void seen.add(`${worker.id} ${worker.state}`));

    const result = await agent.reload(file({ a: ["--mark", "x"], b: [], c: [] }));
    expect(result).toMatchObject({
      restarted: [{ id: ID.a, changes: ["+ --mark x"] }],
      started: [],
      stopped: [],
      untouched: [ID.b, ID.c],
    });
    expect(states()).toEqual(["n/a draining", "n-1/b ready", "n-2/c ready"]);
    await new Promise((resolve) => setTimeout(resolve, 400));
    // Its request still runs, so it does.
    expect([runs(before[0]!), states()[0]]).toEqual([true, "n/a draining"]);
    busy.delete(ID.a);
    await result.done;
    await agent.settled();
    expect(runs(before[0]!)).toBe(false);
    expect(pid(agent, ID.a)).not.toBe(before[0]);
    expect([pid(agent, ID.b), pid(agent, ID.c)]).toEqual(before.slice(1));
    expect(epoch(ID.a)).toBeGreaterThan(epochs[0]!);
    expect(epoch(ID.b)).toBe(epochs[1]);
    expect(states()).toEqual(["n/a ready", "n-1/b ready", "n-2/c ready"]);
    expect([...seen].filter((each) => !each.startsWith("n/a") && !each.endsWith(" ready"))).toEqual([]);
  });

  it("says that the engine comes back until it is ready, or cannot be started", async () => {
    // Routers answered 503 while a reload restarted a model's only engine.
    const agent = make(file({ a: [], b: [] }), { policy: { backoffMs: 20, firstAttempts: 1 } });
    agent.start();
    await agent.settled();
    const seen: string[] = [];
    agent.subscribe(({ worker: { id, state, returns } }) => {
      const now = `${id} ${state}${returns ? " returns" : ""}`;
      if (now !== seen.at(-1)) seen.push(now);
    });
    const result = await agent.reload(file({ a: ["--mark", "x"], b: [] }));
    await result.done;
    await until("ready", () => states()[0] === "n/a ready", 10_000);
    const own = seen.filter((said) => said.startsWith("n/a"));
    expect(own.slice(0, -1).filter((said) => !said.endsWith(" returns"))).toEqual([]);
    expect(own.at(-1)).toBe("n/a ready");
    expect(directory.list().some(({ returns }) => returns)).toBe(false);
    await (await agent.reload(file({ a: ["--exit", "3"], b: [] }))).done;
    await agent.settled();
    expect(states()[0]).toBe("n/a down");
    expect(directory.list().some(({ returns }) => returns)).toBe(false);
  });

  it("ends what was removed and starts what was added, whatever the order in the file", async () => {
    const agent = make(file({ a: [], b: [], c: [] }));
    agent.start();
    await agent.settled();
    const kept = pid(agent, ID.c);
    const gone = pid(agent, ID.a);
    const result = await agent.reload(file({ c: [], d: [], b: [] }));
    expect(result).toMatchObject({ restarted: [], stopped: [ID.a], untouched: [ID.c, ID.b] });
    await result.done;
    await agent.settled();
    // c keeps its name, although the file's order gives it another.
    expect(states()).toEqual(["n-1/b ready", "n-2/c ready", "n-1/d ready"]);
    expect(pid(agent, ID.c)).toBe(kept);
    expect(runs(gone)).toBe(false);
  });

  it("changes nothing when a plan cannot be made", async () => {
    let broken = false;
    const agent = make(file({ a: [], b: [] }), {
      plan: ({ slot, model }) => {
        if (broken) throw new CgnError("CONFIG_INVALID", "Cannot plan", { problems: [] });
        return fakePlan(slot.port, model.extraArgs);
      },
    });
    agent.start();
    await agent.settled();
    const before = [pid(agent, ID.a), pid(agent, ID.b)];
    broken = true;
    await expect(agent.reload(file({ a: ["--mark", "x"] }))).rejects.toThrow("Cannot plan");
    expect([pid(agent, ID.a), pid(agent, ID.b)]).toEqual(before);
    expect(states()).toEqual(["n/a ready", "n-1/b ready"]);
  });

  it("stops in the middle of a reload without starting anything more", async () => {
    const agent = make(file({ a: [] }));
    agent.start();
    await agent.settled();
    const old = pid(agent, ID.a);
    busy.set(ID.a, 1);
    await agent.reload(file({ a: ["--mark", "x"] }));
    busy.delete(ID.a);
    await agent.stop();
    expect([runs(old), pid(agent, ID.a), states()]).toEqual([false, 0, []]);
  });
});

describe("start_after", () => {
  it("starts an engine once those that it names are ready, and ends it before them", async () => {
    const head = '[agent]\nnode_id = "n"\n';
    const settings = file({ a: ["--listen-after", "400"], b: [] }, head);
    const [a, b] = settings.engines;
    const agent = make({ ...settings, engines: [a!, { ...b!, startAfter: [a!.url] }] });
    const seen: string[] = [];
    agent.subscribe(({ worker }) => {
      const now = `${worker.id} ${worker.state}`;
      if (now !== seen.at(-1)) seen.push(now);
    });
    agent.start();
    await agent.settled();
    expect(seen).toEqual(["n/a starting", "n/a ready", "n-1/b starting", "n-1/b ready"]);
    seen.length = 0;
    await agent.stop();
    expect(seen.indexOf("n-1/b down")).toBeLessThan(seen.indexOf("n/a draining"));
  });
});

describe("keep_engines", () => {
  const HEAD = '[agent]\nnode_id = "n"\nkeep_engines = true\ndrain_grace = "300ms"\n';

  it("lets the next agent take over the same processes with their epochs; a changed one is started anew", async () => {
    const first = make(file({ a: [], b: [] }, HEAD));
    first.start();
    await first.settled();
    const before = { a: pid(first, ID.a), b: pid(first, ID.b), epoch: epoch(ID.a) };
    await first.stop();
    // Routers that follow this agent keep what they know until the next one speaks.
    expect(states()).toEqual(["n/a ready", "n-1/b ready"]);
    expect([runs(before.a), runs(before.b)]).toEqual([true, true]);

    const seen: string[] = [];
    const second = make(file({ a: [], b: ["--mark", "y"] }, HEAD));
    second.subscribe(({ worker }) => void seen.push(`${worker.id} ${worker.epoch}`));
    second.start();
    await second.settled();
    expect(pid(second, ID.a)).toBe(before.a);
    expect(epoch(ID.a)).toBe(before.epoch);
    expect(seen.filter((each) => each.startsWith("n/a"))).toEqual(
      seen.filter((each) => each === `n/a ${before.epoch}`),
    );
    expect(pid(second, ID.b)).not.toBe(before.b);
    expect(runs(before.b)).toBe(false);
    expect(second.keeper(ID.a)?.status().starts).toBe(0);

    // An adopted one is kept like any other: it comes back when it is killed.
    process.kill(before.a, "SIGKILL");
    await until("back", () => pid(second, ID.a) !== before.a && states()[0] === "n/a ready", 10_000);
    expect(epoch(ID.a)).toBeGreaterThan(before.epoch);

    // Without keep_engines the kept ones were left where they were, and their ports were in use by nobody that was named.
    const third = make(file({ a: [], b: ["--mark", "y"] }));
    await second.stop();
    const left = [pid(second, ID.a), pid(second, ID.b)];
    third.start();
    await third.settled();
    expect(states()).toEqual(["n/a ready", "n-1/b ready"]);
    expect(left.map(runs)).toEqual([false, false]);
    expect([pid(third, ID.a), pid(third, ID.b)]).not.toEqual(left);
  });

  it("ends a kept engine that left the file before its GPU is given out, and one that moved", async () => {
    // A kept engine that the next file did not name ran on unseen, and its GPU went to another.
    const three = file({ a: [], b: [], c: [] }, HEAD, 'node_id = "NAME"\n');
    const gpus = (settings: Settings, of: Readonly<Record<string, number[]>>): Settings => ({
      ...settings,
      engines: settings.engines.map((each) => ({ ...each, slot: { ...each.slot, gpus: of[each.model.name]! } })),
    });
    const first = make(gpus(three, { a: [0], b: [1], c: [2] }));
    first.start();
    await first.settled();
    const before = ["a", "b", "c"].map((name) => pid(first, workerId(`${name}/${name}`)));
    await first.stop();
    expect(before.map(runs)).toEqual([true, true, true]);

    ports = { ...ports, b: ports["d"]! };
    const order: string[] = [];
    const log = { ...SILENT_LOG, warn: (said: string) => void order.push(said), child: () => log };
    const second = make(gpus(file({ a: [], b: [] }, HEAD, 'node_id = "NAME"\n'), { a: [0], b: [2] }), { log });
    second.subscribe(({ worker, pid: now }) => {
      if (worker.id === "b/b" && now !== undefined) order.push(`b starts, c runs: ${runs(before[2]!)}`);
    });
    second.start();
    expect(states()).toEqual(["a/a down", "b/b down", "c/c ready"]);
    await second.settled();
    expect(before.map(runs)).toEqual([true, false, false]);
    expect(pid(second, workerId("a/a"))).toBe(before[0]);
    expect(order.filter((said) => said.startsWith("b starts, c runs: true"))).toEqual([]);
    expect(
      order.some((said) => said.startsWith(`c/c (pid ${before[2]}, http://127.0.0.1:${ports["c"]}, GPU 2) is ended`)),
    ).toBe(true);
    const after = ["a", "b"].map((name) => pid(second, workerId(`${name}/${name}`)));
    await second.stop();
    // One whose URLs are others': all that is kept of this node ends.
    const third = make(file({ d: [] }, '[agent]\nnode_id = "n"\n'));
    third.start();
    await third.settled();
    expect(after.map(runs)).toEqual([false, false]);
  });

  it.skipIf(process.platform !== "linux")(
    "leaves alone what another agent that runs has in its care, and what is kept for another node",
    async () => {
      // Two agents with one state folder ended, or took over, each other's engines.
      const settings = file({ a: [] }, HEAD);
      const first = make(settings);
      first.start();
      await first.settled();
      const kept = pid(first, ID.a);
      const path = join(dir, "n-a.pid.json");
      const note = JSON.parse(readFileSync(path, "utf8"));
      const other = spawn("sleep", ["60"], { stdio: "ignore" });
      const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
      const ticks = readFileSync(`/proc/${other.pid}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ")[19];
      await first.stop();
      writeFileSync(path, JSON.stringify({ ...note, owner: { pid: other.pid, startTime: `${boot} ${ticks}` } }));

      const second = make(settings);
      second.start();
      await second.settled();
      expect(second.status()[0]?.worker.reason).toMatch(
        `it runs already (pid ${kept}), in the care of another agent (pid ${other.pid})`,
      );
      await second.stop();
      expect(runs(kept)).toBe(true);
      other.kill("SIGKILL");
      writeFileSync(path, JSON.stringify({ ...note, as: { ...note.as, node: "m" }, owner: undefined }));
      const third = make(file({ b: [] }, HEAD));
      third.start();
      await third.settled();
      expect(runs(kept)).toBe(true);
      process.kill(-kept, "SIGKILL");
    },
  );
});
