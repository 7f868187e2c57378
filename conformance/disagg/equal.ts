import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type AgentRun, freePorts, startAgent } from "../live/agent-run.ts";
import { metric, requireVariety } from "../live/requests.ts";
import { VLLM } from "../pins.ts";
import type { Places } from "../places.ts";
import { askPair, difference, logprobDistance, type PairAnswer } from "./answers.ts";
import { ENV, pairToml, plainToml } from "./engines.ts";
import { type PairRequest, pairRequests } from "./requests.ts";
import { nothingStuck } from "./stuck.ts";

const REQUESTS = 200;
const AT_ONCE = 4;
/** Log probabilities at full precision, summed in another order. */
const TOLERANCE = 1e-3;

/**
 * 200 varied requests through the router to a prefill and a decode engine: each answer that of one plain engine.
 * @throws Error with the first differences
 */
export async function runEqual(places: Places): Promise<string> {
  const requests = pairRequests(REQUESTS);
  const expected = await plainAnswers(places, requests);
  const [p = 0, d = 0] = await freePorts(2);
  const agent = await startAgent("vllm-disagg", pairToml(places, p, d), places, ENV, "up");
  try {
    const answers = await askAll(agent.router.url, requests);
    const said = judge(requests, answers, expected);
    const pulled = await metric(
      `http://127.0.0.1:${d}`,
      "vllm:prompt_tokens_by_source_total",
      'source="external_kv_transfer"',
    );
    const stuck = await nothingStuck([p, d].map((port) => `http://127.0.0.1:${port}`));
    await agent.stop();
    return `${said}, ${pulled} tokens pulled over NIXL; ${stuck}; both ready after ${agent.startSeconds.toFixed(0)} s, no process left`;
  } catch (error) {
    await agent.stop().catch(() => {});
    throw error;
  }
}

/** In their order; some at a time. */
async function askAll(url: string, requests: readonly PairRequest[]): Promise<PairAnswer[]> {
  const answers: PairAnswer[] = [];
  let next = 0;
  const one = async (): Promise<void> => {
    for (let n = next++; n < requests.length; n = next++) answers[n] = await askPair(url, requests[n]!);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return answers;
}

function judge(
  requests: readonly PairRequest[],
  answers: readonly PairAnswer[],
  expected: readonly PairAnswer[],
): string {
  const differing = answers.flatMap((answer, n) => {
    const what = difference(answer, expected[n]!, TOLERANCE);
    return what === undefined ? [] : [`${requests[n]!.name}: ${what}`];
  });
  const split = answers.filter(({ prefillNode }) => prefillNode === "prefill").length;
  const furthest = Math.max(...answers.map((answer, n) => logprobDistance(answer, expected[n]!)));
  const said = `${answers.length - differing.length} of ${answers.length} answers equal to one plain engine's, ${split} of them split, log probabilities at most ${furthest.toExponential(1)} apart`;
  if (differing.length > 0) throw new Error(`${said}; ${differing.slice(0, 5).join("; ")}`);
  // Of twenty kinds two ask for two choices and one is short.
  if (split < answers.length * 0.8) throw new Error(`${said}; too few were split`);
  return said;
}

/** From the cache folder where they were made before; named by what was asked. */
async function plainAnswers(places: Places, requests: readonly PairRequest[]): Promise<readonly PairAnswer[]> {
  const digest = createHash("sha256").update(JSON.stringify(requests)).digest("hex").slice(0, 8);
  const file = join(places.root, "baseline", `${VLLM}-disagg-${digest}.json`);
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as PairAnswer[];
  const [port = 0] = await freePorts(1);
  const agent: AgentRun = await startAgent("vllm-disagg-plain", plainToml(places, port), places, ENV);
  try {
    const answers = await askAll(`http://127.0.0.1:${port}`, requests);
    const failed = answers.flatMap(({ error }, n) => (error === undefined ? [] : [`${requests[n]!.name}: ${error}`]));
    if (failed.length > 0) throw new Error(`the plain engine, ${failed.join("; ")}`);
    requireVariety(answers.map(({ choices }) => JSON.stringify(choices)));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, JSON.stringify(answers));
    return answers;
  } finally {
    await agent.stop();
  }
}
