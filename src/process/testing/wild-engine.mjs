#!/usr/bin/env node
// A real process that behaves like an engine on a bad day: what it does follows from a seed and from how often it was started.
// It writes what happens to it into a journal, and finds out by itself whether another one of its slot still runs.
// Node only, no imports of cgn. `wild-run.ts` reads the journal.
//
//   --port N --slot DIR --seed N --mark TEXT   (the mark is in the command line of everything that it starts)
import { spawn } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { port: { type: "string" }, slot: { type: "string" }, seed: { type: "string" }, mark: { type: "string" } },
});
const nowMs = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;
const pidsFile = join(values.slot, "pids");
const note = (what) =>
  appendFileSync(join(values.slot, "journal"), `${JSON.stringify({ at: nowMs(), pid: process.pid, what })}\n`);

/** The kernel's start time; undefined for one that does not run, zombies too. */
const startOf = (pid) => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
  } catch {
    return undefined;
  }
};
const register = (pid) => appendFileSync(pidsFile, `${pid} ${startOf(pid)}\n`);
let earlier = [];
try {
  earlier = readFileSync(pidsFile, "utf8").trim().split("\n");
} catch {
  // The first one.
}
for (const line of earlier) {
  const [pid, start] = line.split(" ");
  if (start !== "undefined" && startOf(pid) === start) note(`second process: ${pid} still runs`);
}
register(process.pid);
note("start");

let state = (Number(values.seed) * 7919 + earlier.length * 104_729 + 1) >>> 0;
const random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
};
const chance = (share) => random() < share;
const between = (low, high) => low + Math.floor(random() * (high - low));

const ignoresTerm = chance(0.4);
process.on("SIGTERM", () => {
  note("SIGTERM");
  if (!ignoresTerm) setTimeout(() => process.exit(chance(0.5) ? 0 : 1), between(0, 120));
});

const leak = (detached) => {
  const child = spawn("/bin/sh", ["-c", "trap '' TERM HUP; while :; do sleep 1; done", values.mark], {
    detached,
    stdio: chance(0.5) ? "inherit" : "ignore",
  });
  register(child.pid);
  if (detached) child.unref();
};
if (chance(0.5)) leak(false);
if (chance(0.3)) leak(true);

if (chance(0.3)) {
  const block = `${"spam ".repeat(20)}\n`.repeat(2_000);
  const spam = () => process.stdout.write(block, () => setTimeout(spam, 5));
  spam();
}
if (chance(0.5)) {
  setTimeout(
    () => {
      const how = between(0, 5);
      note(`dies (${how})`);
      if (how === 0) process.kill(process.pid, "SIGKILL");
      else if (how === 1) process.abort();
      else process.exit(how === 2 ? 0 : how);
    },
    between(0, 2_000),
  );
}
if (chance(0.15)) setTimeout(() => process.kill(process.pid, "SIGSTOP"), between(100, 1_500));

const neverReady = chance(0.1);
const failsLoad = chance(0.05);
const late = chance(0.25);
const readyAt = nowMs() + between(0, 400);
let wasReady = false;
const server = createServer((request, response) => {
  if (request.url !== "/health") {
    // A request that a router sent: was this process ever ready when it was told to be?
    const meant = Number(request.headers["x-pid"]) === process.pid;
    if (meant && !wasReady) note("routed to when not ready");
    response.end("{}");
    return;
  }
  const ready = !neverReady && !failsLoad && nowMs() >= readyAt;
  response.statusCode = failsLoad ? 500 : ready ? 200 : 503;
  if (ready) wasReady = true;
  setTimeout(() => response.end("{}"), late && chance(0.4) ? between(0, 900) : 0);
});
server.on("error", (error) => {
  note(`port: ${error.code}`);
  process.exit(1);
});
setTimeout(() => server.listen(Number(values.port), "127.0.0.1"), between(0, 150));
