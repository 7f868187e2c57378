import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { startupError } from "../agent/startup-error.ts";
import { loadSettings } from "../config/load.ts";
import { CgnError } from "../core/errors.ts";
import { hostPort } from "../engines/address.ts";
import { createLog } from "../telemetry/log.ts";
import { STDERR_LINE } from "../telemetry/terminal-line.ts";
import { zeroMqProblem } from "../wire/load-zeromq.ts";
import { type CliContext, type Command, PORT } from "./command.ts";
import { runChats } from "./demo/chats.ts";
import { type DemoPorts, realConfig, simConfig } from "./demo/config.ts";
import { DEMO_CONFIG, demoFolder } from "./demo/demo-folder.ts";
import { ensureRealEngine } from "./demo/real-engine.ts";
import { brokenPromises, report } from "./demo/report.ts";
import { showEngines } from "./engine-progress.ts";
import { cacheDir } from "./places.ts";
import { type Stack, startStack } from "./stack.ts";
import { stopCode, stopped } from "./stop-code.ts";

const HTTP_PORT = 8080;
const ADMIN_PORT = 9091;
/** The model's name in `simConfig()`: its engines publish KV events. */
const SIM_MODEL = "sim";

/** `cgn demo`: two engines of a small model, three requests, and the proof that the prediction came true. */
export const demoCommand: Command = {
  name: "demo",
  about: "start two engines of a small real model behind one endpoint, and show a prefix hit predicted and confirmed",
  examples: ["cgn demo", "cgn demo --once", "cgn demo --sim --once"],
  options: {
    once: { type: "boolean", about: "end after the report; exit 0 when the prediction held" },
    sim: { type: "boolean", about: "simulated vLLM engines with KV events; needs no Python" },
    prepare: { type: "boolean", about: "only install what is missing (llama.cpp's server and the model, 130 MB)" },
    port: {
      ...PORT,
      about: `port of the endpoint (${HTTP_PORT}, or a free one when that is taken)`,
    },
  },
  async run({ options }, cli) {
    const cache = cacheDir(cli.env);
    const engine = options["sim"] === true ? undefined : await ensureRealEngine(cache, cli.env, cli.signal);
    if (options["prepare"] === true) {
      if (engine !== undefined) cli.out(`python ${engine.python}\nmodel  ${engine.gguf}`);
      return 0;
    }
    const stateDir = demoFolder(cache, process.pid);
    mkdirSync(stateDir, { recursive: true });
    try {
      const ports = await choosePorts(options["port"] as number | undefined);
      const text = engine === undefined ? simConfig(ports, stateDir) : realConfig(engine, ports, stateDir);
      return await runDemo(text, stateDir, engine === undefined ? SIM_MODEL : "smollm2", options["once"] === true, cli);
    } finally {
      rmSync(stateDir, { recursive: true, force: true });
    }
  },
};

async function runDemo(toml: string, stateDir: string, model: string, once: boolean, cli: CliContext): Promise<number> {
  const path = join(stateDir, DEMO_CONFIG);
  writeFileSync(path, toml);
  // Nobody's environment or file may change what the demo shows.
  const env = Object.fromEntries(Object.entries(cli.env).filter(([name]) => !name.startsWith("CGN__")));
  const settings = loadSettings({ path, env, cwd: stateDir, overrides: { "kv.uds": join(stateDir, "kv.sock") } });
  const log = createLog({
    format: "pretty",
    level: "warn",
    color: cli.color,
    write: (line) => STDERR_LINE.print(line),
  });
  const stack = await startStack(settings, { clock: cli.clock, log, env });
  try {
    const engines = await showEngines(stack.agent, cli.signal);
    if (engines === undefined) return stopCode(cli.signal);
    const failed = startupError(engines);
    if (failed !== undefined) throw failed;
    const broken = await showChats(stack, model, cli);
    if (once) return broken.length === 0 ? 0 : 1;
    showNext(stack, model, cli);
    await stopped(cli.signal);
    return 0;
  } finally {
    await stack.stop();
  }
}

async function showChats(stack: Stack, model: string, cli: CliContext): Promise<readonly string[]> {
  const { address } = stack.router;
  const url = `http://${hostPort(address.host, address.port)}`;
  const later = (ms: number): Promise<void> => new Promise((resolve) => void cli.clock.after(ms, resolve));
  const turns = await runChats(url, model, cli.signal, later);
  const why = new Map(
    turns.map((t) => [t.requestId, stack.router.core.decisions.find(t.requestId)?.attempts.at(-1)?.reason ?? ""]),
  );
  cli.out("");
  for (const line of report(turns, why)) cli.out(line);
  const isByHistory = model === SIM_MODEL && zeroMqProblem() !== undefined;
  if (isByHistory) cli.out("No KV events: predicted is what was sent before, without the answer's tokens");
  const broken = brokenPromises(turns, !isByHistory);
  for (const line of broken) cli.err(`cgn: not as promised: ${line}`);
  return broken;
}

function showNext(stack: Stack, model: string, cli: CliContext): void {
  const { address, adminAddress } = stack.router;
  const at = `http://${hostPort(address.host, address.port)}`;
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello!" }], max_tokens: 32 });
  cli.out("");
  cli.out(
    `Serving at ${at}/v1, dashboard at http://${hostPort(adminAddress.host, adminAddress.port)}/. Ctrl-C ends. Try:`,
  );
  cli.out("");
  cli.out(`  curl -i ${at}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`);
}

/** The usual ports where they are free, else any. A port that was asked for is taken as it is. */
async function choosePorts(asked: number | undefined): Promise<DemoPorts> {
  if (asked !== undefined && (!Number.isInteger(asked) || asked < 1 || asked > 65_535)) {
    throw new CgnError(
      "BAD_INVOCATION",
      `Cannot listen on port ${asked}: it is none. Use a number from 1 to 65535`,
      {},
    );
  }
  const http = asked ?? ((await isFree(HTTP_PORT)) ? HTTP_PORT : await anyPort());
  const admin = (await isFree(ADMIN_PORT)) ? ADMIN_PORT : await anyPort();
  return { http, admin, engines: [await anyPort(), await anyPort()] };
}

/** A port that was free a moment ago; each call gives another. */
function anyPort(port = 0): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => {
      const { port: got } = server.address() as { port: number };
      server.close(() => resolve(got));
    });
  });
}

const isFree = (port: number): Promise<boolean> =>
  anyPort(port).then(
    () => true,
    () => false,
  );
