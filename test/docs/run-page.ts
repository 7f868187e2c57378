// node test/docs/run-page.ts PAGE: runs a page's commands one after the other in a folder of their own, with simulated engines under the
// real engines' names. In a network namespace of its own (CGN_PAGE_NETWORK=own) each port and address of the page is free and local.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { blocksOf, readPage } from "./markdown.ts";
import { missingLines, type Step, stepsOf } from "./marks.ts";
import { makePlace, type Place } from "./place.ts";

const PATIENCE_MS = 180_000;
const OWN_NETWORK = process.env["CGN_PAGE_NETWORK"] === "own";

interface Running {
  readonly child: ChildProcess;
  readonly at: string;
  said: string;
  readonly exit: Promise<number>;
}

/** Loopback, and every private address of the page. */
function openNetwork(text: string): void {
  execFileSync("ip", ["link", "set", "lo", "up"]);
  for (const address of new Set(text.match(/\b10(?:\.\d{1,3}){3}\b/g)))
    execFileSync("ip", ["addr", "add", `${address}/32`, "dev", "lo"]);
}

function start(text: string, at: string, place: Place): Running {
  const script = `set -eo pipefail\n${place.here(text)}`;
  const child = spawn("bash", ["-c", script], {
    cwd: place.dir,
    env: place.env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = new Promise<number>((resolve) => child.once("close", (code) => resolve(code ?? 137)));
  const running: Running = { child, at, said: "", exit };
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (running.said += chunk.toString()));
  return running;
}

function signal({ child }: Running, name: NodeJS.Signals): void {
  try {
    process.kill(-(child.pid ?? 0), name);
  } catch {
    // It ended before.
  }
}

/** Ends with the exit code; what takes too long is killed and gives 124. */
async function ended(running: Running): Promise<number> {
  const timer = setTimeout(() => signal(running, "SIGKILL"), PATIENCE_MS);
  const code = await running.exit;
  clearTimeout(timer);
  return code === 137 ? 124 : code;
}

async function answers(url: string, running: Running): Promise<boolean> {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline && running.child.exitCode === null && running.child.signalCode === null) {
    const ok = await fetch(url).then(
      (reply) => reply.ok,
      () => false,
    );
    if (ok) return true;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return false;
}

/** Ctrl-C for what still runs, the newest first. @returns what did not end as it should */
async function endAll(running: Running[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const each of running.splice(0).reverse()) {
    signal(each, "SIGINT");
    const code = await ended(each);
    if (code !== 0 && code !== 130) wrong.push(`${each.at}: ended with ${code} after Ctrl-C\n${each.said}`);
  }
  return wrong;
}

/** @returns what is wrong, empty when all is well */
async function runSteps(page: string, steps: readonly Step[], place: Place): Promise<string[]> {
  const running: Running[] = [];
  let last = "";
  const one = async (step: Step): Promise<string[]> => {
    const at = `${page}:${step.block.line}`;
    if (step.type === "file") place.write(step.name, step.block.text);
    if (step.type === "output")
      return missingLines(step.block.text, last).map((line) => `${at}: not printed: ${line}\n${last}`);
    if (step.type === "run") {
      const run = start(step.block.text, at, place);
      const code = await ended(run);
      last = run.said;
      if (code !== step.exit) return [`${at}: ended with ${code}, not ${step.exit}\n${step.block.text}\n${run.said}`];
    }
    if (step.type === "serve") {
      const wrong = step.alone ? await endAll(running) : [];
      if (wrong.length > 0) return wrong;
      const run = start(step.block.text, at, place);
      running.push(run);
      if (!(await answers(step.url, run)))
        return [`${at}: ${step.url} does not answer\n${step.block.text}\n${run.said}`];
      last = run.said;
    }
    return [];
  };
  const wrong: string[] = [];
  try {
    for (const step of steps) {
      wrong.push(...(await one(step)));
      if (wrong.length > 0) wrong.push(...running.map((each) => `${each.at} said:\n${each.said}`));
      if (wrong.length > 0) break;
      if (process.env["CGN_PAGE_VERBOSE"] === "1" && step.type !== "file")
        console.log(`--- ${page}:${step.block.line}\n${last}`);
    }
  } finally {
    wrong.push(...(await endAll(running)));
  }
  return wrong;
}

/** @returns an exit code */
export async function runPage(page: string): Promise<number> {
  const text = readPage(page);
  if (OWN_NETWORK) openNetwork(text);
  const steps = stepsOf(blocksOf(text));
  const place = makePlace(text);
  try {
    const wrong = await runSteps(page, steps, place);
    for (const line of wrong) console.error(line);
    const ran = steps.filter(({ type }) => type === "run" || type === "serve").length;
    console.log(`${page}: ${ran} blocks run`);
    return wrong.length === 0 ? 0 : 1;
  } finally {
    place.dispose();
  }
}

process.exitCode = await runPage(process.argv[2] ?? "README.md");
