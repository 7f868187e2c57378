import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import { SILENT_LOG } from "../core/log.ts";
import { sampleWorker } from "../core/worker.case.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { CLOCK, fakePlan, freePort, until } from "../process/testing/harness.ts";
import { followAgent } from "../wire/agent-client.ts";
import { type AgentDaemon, runAgent } from "./daemon.ts";
import { registerWithKvcached } from "./kv-registration.ts";
import { settingsFrom } from "./testing/settings.ts";

let dir: string;
let daemon: AgentDaemon | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-agentd-"));
});
afterEach(async () => {
  await daemon?.close();
  rmSync(dir, { recursive: true, force: true });
});

it("runAgent() serves its engines to others and tells its health", async () => {
  const port = await freePort();
  const settings = settingsFrom(
    dir,
    `[agent]\nnode_id = "n"\n[engine]\nkind = "vllm"\nurl = "http://127.0.0.1:${port}"\n[models.m]\n`,
  );
  daemon = await runAgent(settings, {
    clock: CLOCK,
    log: SILENT_LOG,
    env: process.env,
    plan: () => fakePlan(port, ["--listen-after", "300"]),
  });
  const admin = `http://127.0.0.1:${daemon.admin?.port}`;
  const get = async (path: string): Promise<[number, string]> => {
    const reply = await fetch(admin + path);
    return [reply.status, await reply.text()];
  };
  expect((await get("/healthz"))[0]).toBe(200);
  expect((await get("/readyz"))[0]).toBe(503);
  const remote = followAgent({ address: { url: `http://127.0.0.1:${daemon.ports[0]}` }, clock: CLOCK });
  await daemon.agent.settled();
  await until("ready over the wire", () => remote.list()[0]?.state === "ready");
  expect(remote.list()[0]).toMatchObject({ id: "n/m", models: ["m"], epoch: daemon.directory.list()[0]?.epoch });
  const [status, body] = await get("/readyz");
  expect([status, JSON.parse(body).engines[0]]).toMatchObject([200, { id: "n/m", state: "ready" }]);
  expect((await get("/metrics"))[1]).toContain('cgn_agent_engine_ready{model="m"} 1');
  expect((await get("/nothing"))[0]).toBe(404);
  remote.close();
});

it("registerWithKvcached() tells changes, all again after a restart of kvcached, and takes them off", async () => {
  const directory = createMemoryDirectory([sampleWorker("a")]);
  const said: string[] = [];
  let there = false;
  const call = async (text: string): Promise<void> => {
    if (!there) throw new Error("refused");
    said.push(text);
  };
  const registration = registerWithKvcached({
    directory,
    client: { register: (w: WorkerInfo) => call(`+${w.id}:${w.state}`), unregister: (id) => call(`-${id}`) },
    clock: CLOCK,
    log: SILENT_LOG,
    everyMs: 30,
  });
  await new Promise((resolve) => setTimeout(resolve, 60));
  there = true;
  await until("registered once it is there", () => said.includes("+a:ready"));
  directory.set(sampleWorker("a", { state: "down" }));
  await until("told of the change", () => said.includes("+a:down"));
  said.length = 0;
  await until("told again", () => said.includes("+a:down"));
  directory.set(sampleWorker("b"));
  directory.remove(sampleWorker("a").id);
  await until("told of the removal", () => said.includes("-a") && said.includes("+b:ready"));
  await registration.close();
  expect(said.at(-1)).toBe("-b");
});
