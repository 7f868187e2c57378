import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { startupError } from "../agent/startup-error.ts";
import { readHostFacts } from "../config/host.ts";
import { loadSettings } from "../config/load.ts";
import { CgnError } from "../core/errors.ts";
import { hostPort } from "../engines/address.ts";
import { createLog } from "../telemetry/log.ts";
import { STDERR_LINE } from "../telemetry/terminal-line.ts";
import type { CliContext } from "./command.ts";
import { ensureRealEngine } from "./demo/real-engine.ts";
import { showEngines } from "./engine-progress.ts";
import { cacheDir } from "./places.ts";
import { startStack } from "./stack.ts";

/** An endpoint of one model that lives as long as its chat. */
export interface LocalModel {
  readonly url: string;
  readonly model: string;
  stop(): Promise<void>;
}

/**
 * Start llama.cpp's server with a GGUF file behind an endpoint on free loopback ports: the `llama-server` of this host, else the one that
 * `cgn demo` installs.
 * @throws CgnError BAD_INVOCATION without the file; what the engine says when it does not start
 */
export async function startLocal(gguf: string, cli: CliContext): Promise<LocalModel> {
  if (!existsSync(gguf)) throw new CgnError("BAD_INVOCATION", `Cannot run ${gguf}: there is no such file`, {});
  const dir = mkdtempSync(join(tmpdir(), "cgn-run-"));
  const model = basename(gguf, ".gguf");
  try {
    const settings = loadSettings({
      path: await writeConfig(dir, gguf, model, await engineSection(cli)),
      env: cli.env,
      cwd: dir,
    });
    const log = createLog({
      format: "pretty",
      level: "warn",
      color: cli.color,
      write: (line) => STDERR_LINE.print(line),
    });
    const stack = await startStack(settings, { clock: cli.clock, log, env: cli.env });
    const stop = async (): Promise<void> => {
      await stack.stop();
      rmSync(dir, { recursive: true, force: true });
    };
    const engines = await showEngines(stack.agent, cli.signal);
    const failed = engines === undefined ? undefined : startupError(engines);
    if (failed !== undefined || engines === undefined) {
      await stop();
      throw failed ?? new CgnError("CALLER_LEFT", "Interrupted before the model was loaded", {});
    }
    const { address } = stack.router;
    return { url: `http://${hostPort(address.host, address.port)}`, model, stop };
  } catch (e) {
    rmSync(dir, { recursive: true, force: true });
    throw e;
  }
}

async function engineSection({ env, signal }: CliContext): Promise<string> {
  if (readHostFacts(env).found.includes("llama-server")) return '[engine.llama_cpp]\nmode = "binary"\n';
  const { python } = await ensureRealEngine(cacheDir(env), env, signal);
  return `[engine.llama_cpp]\nmode = "xllamacpp"\nbinary = ${JSON.stringify(python)}\n`;
}

async function writeConfig(dir: string, gguf: string, model: string, engine: string): Promise<string> {
  const text = (value: string): string => JSON.stringify(value);
  const path = join(dir, "cgn.toml");
  writeFileSync(
    path,
    `[router]
listen_http = "127.0.0.1:0"
listen_admin = "127.0.0.1:0"
[agent]
state_dir = ${text(dir)}
log_dir = ${text(dir)}
[kv]
index_dir = ${text(join(dir, "index"))}
uds = ${text(join(dir, "kv.sock"))}
[models.${text(model)}]
path = ${text(gguf)}
[engine]
kind = "llama_cpp"
url = "http://127.0.0.1:${await freePort()}"
${engine}`,
  );
  return path;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}
