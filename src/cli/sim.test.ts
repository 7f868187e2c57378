import { type ChildProcess, spawn } from "node:child_process";
import { afterEach, describe, expect, it } from "vitest";
import { freePort } from "../process/testing/harness.ts";
import { LAUNCHERS } from "./places.ts";

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** A simulated engine in a process of its own, started as the agent would: its launcher in the engine's place. */
function launch(name: string, argv: readonly string[], nodeFlags: readonly string[] = []) {
  const args = [...nodeFlags, `${LAUNCHERS}/${name}`, ...argv];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  children.push(child);
  let said = "";
  child.stderr.on("data", (part: Buffer) => (said += part.toString()));
  const exit = new Promise<{ code: number | null; signal: string | null; said: string }>((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal, said }));
  });
  return { child, exit };
}

/** Poll until it answers 200; at most a minute, since a loaded machine starts slowly. */
async function ready(url: string): Promise<boolean> {
  for (let i = 0; i < 1_200; i++) {
    const res = await fetch(`${url}/health`).catch(() => undefined);
    if (res?.status === 200) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

/** A module that hides the optional package. */
const WITHOUT_ZEROMQ = `data:text/javascript,${encodeURIComponent(`
import Module from "node:module";
const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => {
  if (name === "zeromq") throw new Error("Cannot find module 'zeromq'");
  return resolve(name, ...rest);
};`)}`;

const FLAGS = ["--served-model-name", "sim", "--sim-profile", "instant"];

describe("cgn sim in a process of its own", () => {
  it("sim-vllm.mjs serves, and ends with 0 on SIGTERM", { timeout: 90_000 }, async () => {
    const port = await freePort();
    const argv = ["serve", "m", "--port", String(port), "--shutdown-timeout", "5", ...FLAGS];
    const { child, exit } = launch("sim-vllm.mjs", argv);
    expect(await ready(`http://127.0.0.1:${port}`)).toBe(true);
    const body = JSON.stringify({ model: "sim", messages: [{ role: "user", content: "hi" }], max_tokens: 4 });
    const res = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    expect(await res.json()).toMatchObject({ usage: { completion_tokens: 4 } });
    child.kill("SIGTERM");
    expect(await exit).toMatchObject({ code: 0 });
  });

  // "npm install --omit=optional" and then "cgn demo --sim" ended in a crash loop of both engines.
  it("serves without events, and says so, where the ZeroMQ binding is not installed", { timeout: 90_000 }, async () => {
    const port = await freePort();
    const events = JSON.stringify({ enable_kv_cache_events: true, publisher: "zmq", endpoint: "tcp://*:1" });
    const argv = ["serve", "m", "--port", String(port), "--kv-events-config", events, ...FLAGS];
    const { child, exit } = launch("sim-vllm.mjs", argv, ["--import", WITHOUT_ZEROMQ]);
    expect(await ready(`http://127.0.0.1:${port}`)).toBe(true);
    const sources = await fetch(`http://127.0.0.1:${port}/kv_event_sources`);
    expect(await sources.json()).toEqual({});
    child.kill("SIGTERM");
    const { said } = await exit;
    expect(said).toContain("warning: no KV events are published. Cannot use KV events: the ZeroMQ binding is missing");
  });

  it("sim-sglang.mjs takes python's argv, and the fault crash ends it as SIGKILL does", {
    timeout: 90_000,
  }, async () => {
    const port = await freePort();
    const argv = ["-m", "sglang.launch_server", "--model-path", "m", "--port", String(port), ...FLAGS];
    const { exit } = launch("sim-sglang.mjs", argv);
    expect(await ready(`http://127.0.0.1:${port}`)).toBe(true);
    const body = JSON.stringify({ kind: "crash" });
    await fetch(`http://127.0.0.1:${port}/sim/fault`, { method: "POST", body }).catch(() => undefined);
    expect(await exit).toMatchObject({ signal: "SIGKILL" });
  });

  it("--sim-orphans leaves so many processes when it is killed, and none when it is stopped", {
    timeout: 90_000,
  }, async () => {
    const alive = (pid: number) => {
      try {
        return process.kill(pid, 0);
      } catch {
        return false;
      }
    };
    for (const [signal, left] of [
      ["SIGKILL", 2],
      ["SIGTERM", 0],
    ] as const) {
      const port = await freePort();
      const flags = ["--port", String(port), "--shutdown-timeout", "5", "--sim-orphans", "2", ...FLAGS];
      const { child, exit } = launch("sim-vllm.mjs", ["serve", "m", ...flags]);
      expect(await ready(`http://127.0.0.1:${port}`)).toBe(true);
      child.kill(signal);
      const { said } = await exit;
      const pids = [.../outlive a kill: ([\d ]+)/.exec(said)![1]!.matchAll(/\d+/g)].map(Number);
      expect(pids).toHaveLength(2);
      for (let i = 0; i < 100 && pids.filter(alive).length > left; i++) await new Promise((r) => setTimeout(r, 20));
      expect(pids.filter(alive)).toHaveLength(left);
      for (const pid of pids.filter(alive)) process.kill(pid, "SIGKILL");
    }
  });

  it("an unknown flag ends with 2 and argparse's words", { timeout: 90_000 }, async () => {
    const { exit } = launch("sim-vllm.mjs", ["serve", "m", "--swap-space", "4"]);
    const { code, said } = await exit;
    expect(code).toBe(2);
    expect(said).toContain("vllm serve: error: unrecognized arguments: --swap-space 4");
  });
});
