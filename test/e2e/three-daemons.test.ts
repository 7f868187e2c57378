import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { simConfig } from "../../src/cli/demo/config.ts";
import {
  alive,
  type CgnProcess,
  freePorts,
  pidsWith,
  runCgn,
  scratch,
  startCgn,
  until,
} from "../helpers/cgn-process.ts";
import { chat, readyWorkers } from "../helpers/up.ts";

describe("agent, kvcached and router as three processes on one file", () => {
  const place = scratch();
  const uds = join(place.dir, "kv.sock");
  let daemons: CgnProcess[] = [];
  let url = "";
  let admin = "";
  let engines: number[] = [];
  const words = (): string => daemons.map((d) => d.output()).join("\n---\n");

  beforeAll(async () => {
    const [http = 0, adminPort = 0, one = 0, two = 0, agent = 0, agentAdmin = 0, kv = 0] = await freePorts(7);
    url = `http://127.0.0.1:${http}`;
    admin = `http://127.0.0.1:${adminPort}`;
    engines = [one, two];
    const toml = simConfig({ http, admin: adminPort, engines: [one, two] }, place.dir)
      .replace(
        "[agent]",
        `[agent]\nlisten = "127.0.0.1:${agent}"\nlisten_admin = "127.0.0.1:${agentAdmin}"\nkv_uds = "${uds}"`,
      )
      .replace("[kv]", `[kv]\nuds = "${uds}"\nlisten = "127.0.0.1:${kv}"`);
    const config = ["--config", place.file("cgn.toml", toml)];
    daemons = [
      startCgn(["kvcached", ...config]),
      startCgn(["agent", ...config]),
      startCgn(["router", ...config, "--kvcached", `unix:${uds}`]),
    ];
    await until("engines ready", 60_000, async () => ((await readyWorkers(admin)) === 2 ? true : undefined), words);
  }, 90_000);

  afterAll(async () => {
    for (const daemon of daemons) daemon.child.kill("SIGTERM");
    await Promise.all(daemons.map((d) => d.exit));
    place.dispose();
  }, 60_000);

  const body = { model: "sim", max_tokens: 16, stream: true, stream_options: { include_usage: true } };
  const first = [
    { role: "system", content: "The archive keeps glass plates and night logs. ".repeat(12) },
    { role: "user", content: "Where are the comets?" },
  ];

  it("predicts over the network what the engine reports", async () => {
    const one = await chat(url, { ...body, messages: first });
    expect(one, words()).toMatchObject({ status: 200, finished: true });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const two = await chat(url, {
      ...body,
      messages: [...first, { role: "assistant", content: one.text }, { role: "user", content: "And the letters?" }],
    });
    expect(two.node).toBe(one.node);
    expect(two.cached).toBeGreaterThan(0);
    expect(two.predicted).toBe(two.cached);
  });

  it("shows its sources on the command line", async () => {
    const said = await runCgn(["kv", "sources", "--uds", uds, "--json"]);
    const sources = JSON.parse(said.out) as { type: string; state: string; blocksStored: number }[];
    expect(sources.map((s) => s.type)).toEqual(["events", "events"]);
    expect(sources.every((s) => s.state === "live")).toBe(true);
    const stats = JSON.parse((await runCgn(["kv", "stats", "--uds", uds, "--json"])).out) as { blocks: number };
    expect(Number(stats.blocks)).toBeGreaterThan(0);
  }, 30_000);

  it("answers 503 with a reason and Retry-After once the agent has stopped, and leaves no engine", async () => {
    const pids = engines.flatMap((port) => pidsWith("--port", String(port)));
    expect(pids.length).toBeGreaterThan(1);
    daemons[1]?.child.kill("SIGTERM");
    expect(await daemons[1]?.exit).toBe(0);
    await until("engines gone", 5_000, () => (pids.some(alive) ? undefined : true));
    const response = await until("no worker", 10_000, async () => {
      const reply = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...body, messages: first }),
      });
      await reply.clone().text();
      return reply.status === 503 || reply.status === 404 ? reply : undefined;
    });
    expect(response.status).toBe(503);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toContain("sim");
  }, 60_000);
});
