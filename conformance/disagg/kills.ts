import { readdirSync, readFileSync } from "node:fs";
import { freePorts, pause, startAgent, workersOf } from "../live/agent-run.ts";
import type { Places } from "../places.ts";
import { askPair, difference, type PairAnswer } from "./answers.ts";
import { ENV, pairToml } from "./engines.ts";
import { type PairRequest, pairRequests } from "./requests.ts";
import { nothingStuck } from "./stuck.ts";

const AT_ONCE = 4;
/** An error comes so soon after the kill. */
const ERROR_MS = 3_000;
const RESTART_MS = 240_000;

interface Sent {
  readonly request: PairRequest;
  readonly sentMs: number;
  endedMs?: number;
  answer?: PairAnswer;
}

/**
 * Kill the processes of the prefill or the decode engine at random moments while requests run.
 * @param kills how many times; each waits until both engines serve again
 * @throws Error naming each request that was neither answered nor refused in time, and what engines hold
 */
export async function runKills(places: Places, kills: number): Promise<string> {
  const [p = 0, d = 0] = await freePorts(2);
  const urls = [p, d].map((port) => `http://127.0.0.1:${port}`);
  const agent = await startAgent("vllm-disagg-kills", pairToml(places, p, d), places, ENV, "up");
  const { url, admin } = agent.router;
  try {
    const seen = new Seen();
    for (let n = 0; n < kills; n++) {
      await bothServe(url, admin);
      await killOnce(url, n, [p, d], seen);
    }
    await bothServe(url, admin);
    const stuck = await nothingStuck(urls);
    const said = seen.said(kills);
    await agent.stop();
    return `${said}; ${stuck}; both engines serve, no process left`;
  } catch (error) {
    await agent.stop().catch(() => {});
    throw error;
  }
}

/** What became of the requests that ran when an engine was killed. */
class Seen {
  answered = 0;
  refused = 0;
  slowestErrorMs = 0;
  readonly wrong: string[] = [];
  readonly whom: string[] = [];

  add({ request, answer, endedMs = Number.POSITIVE_INFINITY }: Sent, killedMs: number): void {
    if (answer !== undefined && answer.error === undefined && answer.status === 200) {
      this.answered++;
      return;
    }
    this.refused++;
    const late = endedMs - killedMs;
    this.slowestErrorMs = Math.max(this.slowestErrorMs, late);
    if (late > ERROR_MS)
      this.wrong.push(`${request.name}: an error ${late.toFixed(0)} ms after the kill: ${answer?.error}`);
  }

  /** @throws Error when something was wrong */
  said(kills: number): string {
    const all = this.answered + this.refused;
    const said = `${kills} kills (${this.whom.join(", ")}): of ${all} requests then on their way ${this.answered} answered, ${this.refused} ended with an error, the slowest ${this.slowestErrorMs.toFixed(0)} ms after its kill`;
    if (this.wrong.length > 0) throw new Error(`${said}; ${this.wrong.join("; ")}`);
    return said;
  }
}

/** Requests run; at a random moment one engine is killed: its server, or the process that computes. */
async function killOnce(url: string, n: number, ports: readonly number[], seen: Seen): Promise<void> {
  const requests = pairRequests(200);
  const sent: Sent[] = [];
  let over = false;
  let next = n * 17;
  const keepOn = async (): Promise<void> => {
    while (!over) {
      const one: Sent = { request: requests[next++ % requests.length]!, sentMs: performance.now() };
      sent.push(one);
      one.answer = await askPair(url, one.request, AbortSignal.timeout(120_000)).catch((e: Error) => ({
        status: 0,
        choices: [],
        logprobs: [],
        usage: "",
        error: e.message,
      }));
      one.endedMs = performance.now();
    }
  };
  const running = Array.from({ length: AT_ONCE }, keepOn);
  await pause(2_000 + Math.random() * 4_000);
  const which = Math.random() < 0.5 ? 0 : 1;
  const { server, core } = processesOf(ports[which]!);
  const computing = core !== undefined && Math.random() < 0.5;
  const killedMs = performance.now();
  process.kill(computing ? core : server, "SIGKILL");
  seen.whom.push(`${which === 0 ? "prefill" : "decode"}'s ${computing ? "EngineCore" : "server"}`);
  // Later ones meet a fleet that knows already: they must be answered as well.
  await pause(1_000);
  over = true;
  await Promise.all(running);
  for (const one of sent) if ((one.endedMs ?? 0) > killedMs) seen.add(one, Math.max(killedMs, one.sentMs));
}

/** The server of a port and its child that computes (Linux). */
function processesOf(port: number): { readonly server: number; readonly core: number | undefined } {
  const all = readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const argv = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      return [{ pid: Number(name), argv, parent: Number(stat.slice(stat.lastIndexOf(")") + 4).split(" ")[0]) }];
    } catch {
      return []; // It ended between the two.
    }
  });
  const own = all.filter(({ argv }) => argv.includes("--port") && argv.includes(String(port)));
  // The agent watches an engine by a small process of its own, which has the engine's words too.
  const server = own.find(({ argv }) => /python/.test(argv[0] ?? "") || argv[0]?.endsWith("/vllm"));
  if (server === undefined) throw new Error(`no process serves port ${port}`);
  const core = all.find(({ argv, parent }) => parent === server.pid && /EngineCore/.test(argv.join(" ")));
  return { server: server.pid, core: core?.pid };
}

/** Both are ready again, and a request goes through both. @throws Error when not in time */
async function bothServe(url: string, admin: string): Promise<void> {
  const end = Date.now() + RESTART_MS;
  const [{ path, body, ...named }] = pairRequests(1) as [PairRequest];
  let said = "nothing";
  let first: PairAnswer | undefined;
  while (Date.now() < end) {
    await pause(300);
    const workers = await workersOf(admin);
    said = workers.map(({ id, state }) => `${id} ${state}`).join(", ");
    if (workers.length < 2 || workers.some(({ state }) => state !== "ready")) continue;
    // A prompt that nobody has: one that the decode engine still holds is computed there alone, and rightly.
    const request = { ...named, path, body: { ...body, prompt: `${Math.random()}. ${body["prompt"]}` } };
    first = await askPair(url, request);
    said = JSON.stringify(first);
    if (first.error === undefined && first.prefillNode === "prefill" && first.node === "decode") {
      const again = await askPair(url, request);
      const what = difference(again, first, 1e-3);
      if (what !== undefined) throw new Error(`asked twice after a kill: ${what}`);
      return;
    }
  }
  throw new Error(`the pair does not serve ${RESTART_MS / 1000} s after a kill: ${said}`);
}
