// node test/docs/run-examples.ts: runs every example of the commands' help (docs/cli.md is printed from them), in a network of its own
// (CGN_PAGE_NETWORK=own): those that need nobody, those that ask a running cgn up, and those that serve, one after the other.
import { execFileSync, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "../../src/cli/command.ts";
import { COMMAND_GROUPS, COMMANDS } from "../../src/cli/commands.ts";
import { describeError } from "../../src/cli/main.ts";
import { runProgram } from "../../src/cli/program.ts";
import { systemClock } from "../../src/cli/system-clock.ts";
import { asPrinted, EXITS, FLEET, NEEDS, prepare, SERVES, SKIPPED, URL_OF, wordsOf } from "./example-rules.ts";
import { makePlace, type Place } from "./place.ts";

const PATIENCE_MS = 120_000;

interface Ended {
  readonly code: number;
  readonly said: string;
}

/** One command line in this process: as the program would run it, but hundreds of milliseconds sooner. */
async function inProcess(argv: readonly string[], place: Place, stop: AbortSignal): Promise<Ended> {
  let said = "";
  const say = (text: string): void => void (said += `${text}\n`);
  const cli = { out: say, err: say, env: place.env, cwd: place.dir, color: false, signal: stop, clock: systemClock() };
  try {
    const code = await runProgram(COMMANDS, argv, cli, { version: "0", groups: COMMAND_GROUPS });
    return { code, said };
  } catch (e) {
    const { lines, exit } = describeError(e, {});
    return { code: exit, said: said + lines.join("\n") };
  }
}

/** In a shell, beside this thread: what it asks may be served here. */
async function inShell(line: string, place: Place): Promise<Ended> {
  const child = spawn("bash", ["-o", "pipefail", "-c", line], { cwd: place.dir, env: place.env, timeout: PATIENCE_MS });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk.toString()));
  child.stdin.end();
  const code = await new Promise<number>((resolve) => child.once("close", (status) => resolve(status ?? 124)));
  return { code, said };
}

/** A plain command line has no more than words and quotes. */
const isPlain = (line: string): boolean => /^cgn /.test(line) && !/[|<>;&$]/.test(line);

async function runOne(line: string, place: Place): Promise<Ended> {
  if (!isPlain(line)) return inShell(line, place);
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort("SIGTERM"), PATIENCE_MS);
  const ended = await inProcess(wordsOf(line).slice(1), place, stop.signal);
  clearTimeout(timer);
  return ended;
}

const wrongEnd = (line: string, { code, said }: Ended): string[] => {
  const wanted = EXITS[line] ?? [0];
  return wanted.includes(code) ? [] : [`${line}\n  ended with ${code}, not ${wanted.join(" or ")}\n${said}`];
};

async function answers(url: string, ended: () => boolean): Promise<boolean> {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline && !ended()) {
    const there = await fetch(url).then(
      () => true,
      () => false,
    );
    if (there) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

/** Starts it, does `meanwhile` when it answers, and stops it as Ctrl-C does. */
async function serving(line: string, place: Place, meanwhile: () => Promise<string[]>): Promise<string[]> {
  const stop = new AbortController();
  let over = false;
  const running = inProcess(wordsOf(place.here(line)).slice(1), place, stop.signal).then((ended) => {
    over = true;
    return ended;
  });
  const url = URL_OF(line);
  const there = url === undefined || (await answers(url, () => over));
  if (url === undefined) await new Promise((resolve) => setTimeout(resolve, 300));
  const wrong = there ? await meanwhile() : [];
  stop.abort("SIGINT");
  const { code, said } = await running;
  if (!there) return [`${line}\n  ${url} does not answer\n${said}`];
  return [0, 130].includes(code) ? wrong : [...wrong, `${line}\n  ended with ${code}\n${said}`];
}

function tell(example: string, began: number): void {
  if (process.env["CGN_PAGE_VERBOSE"] === "1") console.error(`${Math.round(performance.now() - began)} ms  ${example}`);
}

/** Asks until the engines are there. */
async function firstRequest(): Promise<void> {
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Once upon a time" }], max_tokens: 4 });
  const headers = { "content-type": "application/json", "x-request-id": "my-request-1" };
  const deadline = Date.now() + PATIENCE_MS;
  for (let ok = false; !ok && Date.now() < deadline; ) {
    const reply = await fetch("http://127.0.0.1:8080/v1/chat/completions", { method: "POST", headers, body });
    await reply.text();
    ok = reply.ok;
    if (!ok) await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** @returns what is wrong */
async function runStage(commands: readonly Command[], stage: "alone" | "asking", place: Place): Promise<string[]> {
  const wrong: string[] = [];
  for (const { name, examples } of commands)
    for (const example of examples) {
      if (example in SKIPPED || /^(?:curl|kill) /.test(example) || NEEDS(name, example) !== stage) continue;
      const line = place.here(asPrinted(example));
      const began = performance.now();
      // A first file is written where there is none.
      if (name === "init") rmSync(join(place.dir, "cgn.toml"), { force: true });
      if (name === "kv capture") rmSync(join(place.dir, "capture"), { recursive: true, force: true });
      if (SERVES(name, example)) wrong.push(...(stage === "asking" ? await serving(line, place, async () => []) : []));
      else wrong.push(...wrongEnd(example, await runOne(line, place)));
      if (name === "init" || line.includes("cgn.toml")) place.write("cgn.toml", FLEET);
      tell(example, began);
    }
  return wrong;
}

async function runServing({ name, examples }: Command, place: Place): Promise<string[]> {
  const calls = new Set(examples.filter((line) => line.startsWith("curl ") && !(line in SKIPPED)));
  const tryCalls = async (): Promise<string[]> => {
    for (const call of calls) {
      const { code } = await inShell(place.here(asPrinted(call)).replace(/^curl /, "curl -sf "), place);
      if (code === 0) calls.delete(call);
    }
    return [];
  };
  const wrong: string[] = [];
  for (const example of examples) {
    if (example in SKIPPED || !SERVES(name, example) || NEEDS(name, example) === "asking") continue;
    const began = performance.now();
    wrong.push(...(await serving(asPrinted(example), place, tryCalls)));
    tell(example, began);
  }
  return [...wrong, ...[...calls].map((call) => `${call}\n  was not answered`)];
}

async function main(): Promise<number> {
  if (process.env["CGN_PAGE_NETWORK"] === "own") execFileSync("ip", ["link", "set", "lo", "up"]);
  const place = makePlace(COMMANDS.flatMap(({ examples }) => examples).join("\n"));
  prepare(place);
  const wrong = await runStage(COMMANDS, "alone", place);
  place.write("cgn.toml", FLEET);
  wrong.push(
    ...(await serving("cgn up", place, async () => {
      await firstRequest();
      return runStage(COMMANDS, "asking", place);
    })),
  );
  for (const command of COMMANDS) wrong.push(...(await runServing(command, place)));
  place.dispose();
  for (const line of wrong) console.error(`${line}\n`);
  const all = COMMANDS.flatMap(({ examples }) => examples);
  console.log(`${all.length - Object.keys(SKIPPED).length} of ${all.length} examples run, ${wrong.length} wrong`);
  return wrong.length === 0 ? 0 : 1;
}

process.exit(await main());
