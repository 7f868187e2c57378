// npm run test:binary: the single program of this host (built first), in an empty folder, with an empty cache and no Node on PATH: its version, the
// table, the demo with simulated engines, and `cgn up` with one of them, where the system can with two threads for clients, until it has answered
// a chat. Prints JSON.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:binary");

const PATIENCE_MS = 120_000;
const TARGET = `${process.platform}-${process.arch}`;
/** Threads that share a port (docs/architecture.md). */
const THREADS = process.platform === "linux" ? 2 : 0;
const PROGRAM = join(ROOT, "dist-binary", `cgn-${TARGET}`);

const built = spawnSync(process.execPath, [join(ROOT, "scripts", "build-binary.mjs")], { stdio: ["ignore", 2, 2] });
if (built.status !== 0) process.exit(built.status ?? 1);

const place = mkdtempSync(join(tmpdir(), "cgn-binary-"));
const env = { HOME: place, PATH: join(place, "no-programs"), XDG_CACHE_HOME: join(place, "cache") };
mkdirSync(env.PATH);

function run(...args) {
  const began = performance.now();
  const done = spawnSync(PROGRAM, args, { cwd: place, env, encoding: "utf8", timeout: PATIENCE_MS });
  if (done.status !== 0)
    throw new Error(`cgn ${args.join(" ")} ended with ${done.status}\n${done.stdout}${done.stderr}`);
  return { text: done.stdout, noise: done.stderr, ms: Math.round(performance.now() - began) };
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** `cgn up` with a simulated vLLM as a process of its own; it must answer, and end in order. */
async function up() {
  const [unpacked] = readdirSync(join(env.XDG_CACHE_HOME, "cgn"));
  const launcher = join(env.XDG_CACHE_HOME, "cgn", unpacked, "launchers", "sim-vllm.mjs");
  const [port, admin, engine] = [await freePort(), await freePort(), await freePort()];
  writeFileSync(
    join(place, "cgn.toml"),
    `[router]
listen_http = "127.0.0.1:${port}"
listen_admin = "127.0.0.1:${admin}"
worker_threads = ${THREADS}
[kv]
listen = "127.0.0.1:0"
[models.sim]
tokenizer = "bytes"
[engine]
kind = "vllm"
url = "http://127.0.0.1:${engine}"
[engine.vllm]
binary = "${launcher}"
`,
  );
  const child = spawn(PROGRAM, ["up"], { cwd: place, env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
  try {
    const answer = await firstAnswer(`http://127.0.0.1:${port}/v1/chat/completions`);
    const page = await fetch(`http://127.0.0.1:${admin}/`).then((res) => res.text());
    if (!page.includes("<title>")) throw new Error("the dashboard is not served");
    const metrics = await fetch(`http://127.0.0.1:${admin}/metrics`).then((res) => res.text());
    if (THREADS > 0 && !new RegExp(`^cgn_router_threads ${THREADS}$`, "m").test(metrics))
      throw new Error("it has not the threads that its file says");
    child.kill("SIGTERM");
    const code = await Promise.race([
      ended,
      new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, "no end").unref()),
    ]);
    if (code !== 0) throw new Error(`cgn up ended with ${code}`);
    return answer;
  } catch (e) {
    throw new Error(`${e.message}\n${said}`);
  } finally {
    child.kill("SIGKILL");
  }
}

async function firstAnswer(url) {
  const body = JSON.stringify({ model: "sim", max_tokens: 8, messages: [{ role: "user", content: "hello" }] });
  let last = "nothing was asked";
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; ) {
    const res = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body }).catch(
      (e) => ({ status: 0, text: async () => String(e) }),
    );
    const text = await res.text();
    if (res.status === 200) return JSON.parse(text).choices[0].message.content.length;
    last = `${res.status} ${text}`;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`no answer: ${last}`);
}

try {
  const first = run("--version");
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  if (first.text.trim() !== version) throw new Error(`it says version ${first.text}`);
  const second = run("--version");
  if (second.noise !== "") throw new Error(`it says on stderr: ${second.noise}`);
  if (!run("table").text.includes("--kv-transfer-config")) throw new Error("cgn table shows no cell");
  const demo = run("demo", "--sim", "--once");
  if (!/reported by the engine \d+/.test(demo.text)) throw new Error(`the demo reports nothing:\n${demo.text}`);
  const answered = await up();
  const { size: bytes } = statSync(PROGRAM);
  console.log(
    JSON.stringify({ target: TARGET, bytes, firstStartMs: first.ms, startMs: second.ms, demoMs: demo.ms, answered }),
  );
} catch (e) {
  console.error(`cgn: the program is not as it should be: ${e.message}`);
  process.exitCode = 1;
} finally {
  rmSync(place, { recursive: true, force: true });
}
