#!/usr/bin/env node
// A tiny real process that behaves like an engine, and misbehaves on request. Node only, no imports of cgn.
//
//   --port N            listen on 127.0.0.1:N; /health answers 503 until ready, then 200
//   --ready-after MS    default 0
//   --listen-after MS   connections are refused before (as vLLM); default 0
//   --never-ready       /health stays 503
//   --fail-load         /health answers 500 from the start
//   --exit-after MS     end after MS, with --code N (default 0), after printing --say TEXT to stderr
//   --ignore-sigterm    SIGTERM does nothing (the number of them is printed)
//   --term-twice        the first SIGTERM does nothing, the second one ends it with 1 (as llama-server)
//   --spawn-child       start a child in the same process group that ignores SIGTERM; its pid is printed as "child N"
//   --leak-session      the same with a session of its own, which no group kill reaches
//   --running N         /metrics: N requests, and a counter that never moves
//   --spam-log          write a megabyte to stdout, again and again
//   --print-env NAME    print a variable
//   --mark TEXT         does nothing; its child has it in its command line too
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    "ready-after": { type: "string", default: "0" },
    "listen-after": { type: "string", default: "0" },
    "never-ready": { type: "boolean", default: false },
    "fail-load": { type: "boolean", default: false },
    "exit-after": { type: "string" },
    code: { type: "string", default: "0" },
    say: { type: "string" },
    "ignore-sigterm": { type: "boolean", default: false },
    "term-twice": { type: "boolean", default: false },
    "spawn-child": { type: "boolean", default: false },
    "leak-session": { type: "boolean", default: false },
    running: { type: "string" },
    "spam-log": { type: "boolean", default: false },
    "print-env": { type: "string" },
    mark: { type: "string", default: "" },
  },
});

let terms = 0;
if (values["ignore-sigterm"] || values["term-twice"]) {
  process.on("SIGTERM", () => {
    terms++;
    console.log(`SIGTERM ${terms}`);
    if (values["term-twice"] && terms === 2) process.exit(1);
  });
}
console.log(`engine ${process.pid}`);
if (values["print-env"] !== undefined) console.log(`${values["print-env"]}=${process.env[values["print-env"]]}`);

if (values["spawn-child"] || values["leak-session"]) {
  const stay = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)";
  const detached = values["leak-session"];
  const child = spawn(process.execPath, ["-e", stay, values.mark], {
    stdio: detached ? "ignore" : "inherit",
    detached,
  });
  console.log(`child ${child.pid}`);
}

if (values["exit-after"] !== undefined) {
  setTimeout(() => {
    if (values.say !== undefined) console.error(values.say);
    process.exit(Number(values.code));
  }, Number(values["exit-after"]));
}

if (values["spam-log"]) {
  const line = `${"spam ".repeat(20)}\n`;
  const megabyte = line.repeat(10_000);
  const spam = () => process.stdout.write(megabyte, () => setImmediate(spam));
  spam();
}

if (values.port !== undefined) {
  const readyAt = performance.now() + Number(values["ready-after"]);
  const server = createServer((request, response) => {
    const ready = !values["never-ready"] && performance.now() >= readyAt;
    response.statusCode = values["fail-load"] ? 500 : ready ? 200 : 503;
    if (values.running !== undefined && request.url === "/metrics") {
      response.statusCode = 200;
      response.end(`running ${values.running}\nprogress 7\n`);
      return;
    }
    response.end(request.url === "/health" ? "{}" : "hello");
  });
  setTimeout(() => server.listen(Number(values.port), "127.0.0.1"), Number(values["listen-after"]));
} else if (values["exit-after"] === undefined || values["spam-log"]) setInterval(() => {}, 1000);
