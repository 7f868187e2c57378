import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Agent, type AgentOptions, createAgent } from "../../src/agent/agent.ts";
import { startupError } from "../../src/agent/startup-error.ts";
import { settingsFrom } from "../../src/agent/testing/settings.ts";
import { createMemoryDirectory, type MemoryDirectory } from "../../src/cluster/memory-directory.ts";
import type { LaunchPlan } from "../../src/core/launch-plan.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { CLOCK, fakePlan, freePort, runs, until } from "../../src/process/testing/harness.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";

let dir: string;
let directory: MemoryDirectory;
let agents: Agent[];
let servers: Server[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-agent-"));
  directory = createMemoryDirectory();
  agents = [];
  servers = [];
});
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.stop()));
  for (const server of servers) server.close().closeAllConnections();
  rmSync(dir, { recursive: true, force: true });
});

function make(toml: string, over: Partial<AgentOptions> = {}): Agent {
  const agent = createAgent({
    settings: settingsFrom(dir, toml),
    directory,
    clock: CLOCK,
    log: SILENT_LOG,
    env: process.env,
    policy: { backoffMs: 20 },
    ...over,
  });
  agents.push(agent);
  return agent;
}

/** Two vLLM engines by name; `flags` of the fake engine that runs in place of each. */
async function twoEngines(flags: Readonly<Record<string, readonly string[]>>, over: Partial<AgentOptions> = {}) {
  const ports = { a: await freePort(), b: await freePort() };
  const toml = Object.entries(ports)
    .map(([name, port]) => `[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:${port}"\nmodel = "${name}"`)
    .join("\n");
  const plan: AgentOptions["plan"] = ({ slot, model }): LaunchPlan => fakePlan(slot.port, flags[model.name] ?? []);
  return make(`[agent]\nnode_id = "n"\n${toml}`, { plan, ...over });
}

const states = (): string[] => directory.list().map(({ id, state }) => `${id} ${state}`);

describe("createAgent() with engines of its own", () => {
  it("announces each engine as it comes up, and takes it off when it stops", async () => {
    const agent = await twoEngines({ b: ["--listen-after", "200"] });
    const seen: string[] = [];
    directory.subscribe((workers) => void seen.push(workers.map((w) => `${w.models[0]} ${w.state}`).join(", ")));
    agent.start();
    const engines = await agent.settled();
    expect(engines.map(({ worker }) => worker.state)).toEqual(["ready", "ready"]);
    expect(startupError(engines)).toBeUndefined();
    const [a] = directory.list();
    expect(a).toMatchObject({
      kind: "vllm",
      models: ["a"],
      kv: { type: "events" },
      reason: "ready",
      blockTokens: expect.any(Number),
    });
    expect(a?.epoch).toBeGreaterThan(1.7e9);
    await agent.stop();
    expect(seen).toContain("a draining, b ready");
    expect(directory.list()).toEqual([]);
    for (const { pid = 0 } of engines) expect(runs(pid)).toBe(false);
  });

  it("tells of a crash at once, and of the restart with a higher epoch", async () => {
    const agent = await twoEngines({});
    agent.start();
    const [first] = await agent.settled();
    process.kill(first?.pid ?? 0, "SIGKILL");
    await until("down", () => directory.list()[0]?.state !== "ready");
    await until("ready again", () => directory.list()[0]?.state === "ready");
    expect(directory.list()[0]?.epoch).toBeGreaterThan(first?.worker.epoch ?? 0);
    expect(agent.status()[0]?.starts).toBe(2);
  });

  it("reports all engines that cannot start in one error, and keeps the rest", async () => {
    const bad = ["--never-ready", "--exit-after", "5", "--code", "1", "--say"];
    const agent = await twoEngines({ a: [...bad, "error: invalid argument: --x"] });
    agent.start();
    const engines = await agent.settled();
    expect(startupError(engines)?.code).toBe("ENGINE_EXITED");
    expect(startupError(engines)?.message).toContain("error: invalid argument: --x");
    expect(states()).toEqual(["n/a down", expect.stringMatching(/ ready$/)]);
    const both = await twoEngines({ a: [...bad, "failed to load model"], b: [...bad, "boom b"] });
    both.start();
    const error = startupError(await both.settled());
    expect(error?.code).toBe("MODEL_NOT_FOUND");
    expect(error?.message).toContain("Cannot start 2 of 2 engines");
    expect(error?.message).toContain("| boom b");
  });

  it("drains by what the router says, and resumes", async () => {
    let inflight = 2;
    const agent = await twoEngines({}, { inflight: () => inflight });
    agent.start();
    await agent.settled();
    const id = directory.list()[0]?.id;
    const drained = agent.drain(id);
    expect(directory.list().map(({ state }) => state)).toEqual(["draining", "ready"]);
    inflight = 0;
    expect(await drained).toBe(true);
    agent.resume(id);
    expect(directory.list()[0]).toMatchObject({ state: "ready" });
  });

  it("shows how far a load is, and counts", async () => {
    const metrics = createMetrics({ processMetrics: false });
    const agent = await twoEngines({ a: ["--listen-after", "600"] }, { metrics });
    const lines: string[] = [];
    agent.subscribe(({ worker, progress }) => {
      if (worker.models[0] === "a" && progress !== undefined) lines.push(progress.lastLine);
    });
    agent.start();
    await agent.settled();
    expect(lines.some((line) => line.startsWith("engine "))).toBe(true);
    const text = await metrics.text();
    expect(text).toContain('cgn_agent_engine_ready{model="a"} 1');
    expect(text).toContain('cgn_agent_engine_starts_total{worker="n/a"} 1');
    expect(text).toContain('cgn_agent_engine_load_seconds_count{model="a"} 1');
  });

  it("leaves engines running with keep_engines, and finds them again with their epoch", async () => {
    const port = await freePort();
    const toml = `[agent]\nnode_id = "n"\nkeep_engines = true\n[engine]\nkind = "vllm"\nurl = "http://127.0.0.1:${port}"\n[models.m]\n`;
    const plan: AgentOptions["plan"] = () => fakePlan(port, ["--spawn-child"]);
    const first = make(toml, { plan });
    first.start();
    const [before] = await first.settled();
    await first.stop();
    expect(runs(before?.pid ?? 0)).toBe(true);
    const second = make(toml, { plan });
    second.start();
    const [after] = await second.settled();
    expect([after?.pid, after?.worker.epoch, after?.starts]).toEqual([before?.pid, before?.worker.epoch, 0]);
    await second.stop();
    const third = make(toml.replace("keep_engines = true", ""), { plan: () => fakePlan(port, []) });
    process.kill(-(before?.pid ?? 0), "SIGKILL");
    await until("gone", () => !runs(before?.pid ?? 0));
    third.start();
    expect((await third.settled())[0]?.worker.state).toBe("ready");
  });
});

/** A vLLM-like endpoint of somebody else. */
async function endpoint(port: number, startTime: () => number, hangs = () => false): Promise<Server> {
  const server = createServer((req, res) => {
    if (hangs()) return;
    if (req.url === "/v1/models") res.end(JSON.stringify({ data: [{ id: "theirs", max_model_len: 4096 }] }));
    else if (req.url === "/metrics") res.end(`process_start_time_seconds ${startTime()}\n`);
    else res.end("{}");
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return server;
}

describe("createAgent() with an engine that somebody else runs", () => {
  it("adopts it, sees it go and come back, and a restart between two looks", async () => {
    const port = await freePort();
    let started = 100;
    const agent = make(
      `[agent]\nnode_id = "n"\n[engine]\nkind = "vllm"\nurl = "http://127.0.0.1:${port}"\nspawn = false\n`,
    );
    agent.start();
    await agent.settled();
    expect(directory.list()[0]).toMatchObject({ state: "down", reason: `nothing answers at http://127.0.0.1:${port}` });
    const server = await endpoint(port, () => started);
    await until("ready", () => directory.list()[0]?.state === "ready");
    const { epoch = 0, models, maxModelTokens } = directory.list()[0] ?? {};
    expect([models, maxModelTokens]).toEqual([["theirs"], 4096]);
    started = 200;
    await until("restart seen", () => (directory.list()[0]?.epoch ?? 0) > epoch);
    server.close().closeAllConnections();
    await until("down", () => directory.list()[0]?.state === "down");
    await agent.stop();
    expect(directory.list()).toEqual([]);
  });

  it("takes one that answers nothing any more out, and back in with the same epoch", async () => {
    // Broke: a hung engine stayed ready, and requests went on to it.
    const port = await freePort();
    let hangs = false;
    await endpoint(
      port,
      () => 100,
      () => hangs,
    );
    const agent = make(
      `[agent]\nnode_id = "n"\n[engine]\nkind = "vllm"\nurl = "http://127.0.0.1:${port}"\nspawn = false\n`,
    );
    agent.start();
    await until("ready", () => directory.list()[0]?.state === "ready");
    const { epoch } = directory.list()[0] ?? {};
    hangs = true;
    await until("down", () => directory.list()[0]?.state === "down", 20_000);
    expect(directory.list()[0]?.alive).toBe(true);
    expect(directory.list()[0]?.reason).toMatch(/^hung: no answer to its health probe for 1\d s$/);
    hangs = false;
    await until("ready again", () => directory.list()[0]?.state === "ready");
    expect(directory.list()[0]?.epoch).toBe(epoch);
  }, 40_000);
});
