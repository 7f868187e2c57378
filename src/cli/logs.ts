import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { workerIds } from "../agent/engine-worker.ts";
import type { Settings } from "../config/settings.ts";
import { CgnError } from "../core/errors.ts";
import { followFile } from "../process/file-follow.ts";
import { keptRunPath } from "../process/kept-runs.ts";
import { logFileOf } from "../process/plan-supervisor.ts";
import { type CliContext, CONFIG_OPTIONS, type Command } from "./command.ts";
import { runningDemos } from "./demo/demo-folder.ts";
import { lastLines } from "./last-lines.ts";
import { loadForCommand } from "./load-config.ts";
import { cacheDir } from "./places.ts";

/** `cgn logs`: what the engines wrote, from the bounded files of `[agent].log_dir`. */
export const logsCommand: Command = {
  name: "logs",
  about: "show what engines wrote",
  examples: ["cgn logs", "cgn logs node1/qwen --lines 200", "cgn logs qwen --follow", "cgn logs qwen --run bad"],
  positionals: [{ name: "engine", about: "its id, or a part of it; default: all", required: false }],
  options: {
    ...CONFIG_OPTIONS,
    follow: { type: "boolean", about: "go on with what is written from now on, until Ctrl-C" },
    run: {
      type: "string",
      about: "now: the log that goes on; good: the newest run that was stable; bad: the newest that ended by itself",
      default: "now",
      choices: ["now", "good", "bad"],
    },
    lines: {
      type: "number",
      value: "N",
      whole: true,
      min: 0,
      max: 1_000_000,
      about: "how many of the last lines of each",
      default: 50,
    },
  },
  async run({ options, positionals }, cli) {
    const settings = loadForCommand(options, cli);
    const logs = ofRun(
      chooseLogs(settings, positionals[0], runningDemos(cacheDir(cli.env))),
      String(options["run"]),
      positionals[0],
    );
    const files = settings.agent.logBounds.files;
    const prefix = (name: string): string => (logs.length > 1 ? `${name} | ` : "");
    const count = Math.max(0, Number(options["lines"]));
    for (const { name, path } of logs) {
      for (const line of await lastLines(path, count, files)) cli.out(prefix(name) + line);
    }
    if (options["follow"] === true) {
      await Promise.all(logs.map(({ name, path }) => follow(path, cli, (line) => cli.out(prefix(name) + line))));
    }
    return 0;
  },
};

interface EngineLog {
  readonly name: string;
  readonly path: string;
}

/** The engines of the configuration, and what else lies in the folder (sidecars, engines of an earlier configuration). */
function chooseLogs({ agent, engines }: Settings, wanted: string | undefined, demos: readonly string[]): EngineLog[] {
  const configured = workerIds(engines).map((id) => ({ name: id as string, path: logFileOf(agent.logDir, id) }));
  const paths = new Set(configured.map(({ path }) => path));
  const others = (existsSync(agent.logDir) ? readdirSync(agent.logDir) : [])
    .filter((file) => file.endsWith(".log"))
    .map((file) => ({ name: basename(file, ".log"), path: join(agent.logDir, file) }))
    .filter(({ path }) => !paths.has(path))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const known = [...configured, ...others];
  const exact = known.filter(({ name }) => name === wanted);
  if (exact.length > 0) return exact;
  const chosen = known.filter(({ name }) => wanted === undefined || name.includes(wanted));
  if (chosen.length > 0) return chosen;
  const names = known.map(({ name }) => name);
  const is = wanted === undefined ? `there are none in ${agent.logDir}` : `no engine is called "${wanted}"`;
  const demo =
    demos.length > 0 ? `. A demo that runs has logs of its own: cgn logs --config ${demos.join(" or ")}` : "";
  const start = "Start engines first, or name the configuration they run with by --config";
  const right = (names.length > 0 ? `Known: ${names.join(", ")}` : start) + demo;
  throw new CgnError("BAD_INVOCATION", `Cannot show logs: ${is}. ${right}`, { known: names });
}

/** The same logs, or what was kept of one run of each, where there is any. @throws CgnError BAD_INVOCATION when there is none */
function ofRun(logs: readonly EngineLog[], run: string, wanted: string | undefined): readonly EngineLog[] {
  if (run !== "good" && run !== "bad") return logs;
  const kept = logs
    .map(({ name, path }) => ({ name, path: keptRunPath(path, run) }))
    .filter(({ path }) => existsSync(path));
  if (kept.length > 0) return kept;
  const what = run === "good" ? "no run was stable for a minute yet" : "no run ended by itself yet";
  const message = `Cannot show the last ${run} run${wanted === undefined ? "" : ` of "${wanted}"`}: ${what}. See cgn logs`;
  throw new CgnError("BAD_INVOCATION", message, { run });
}

async function follow(path: string, { signal }: CliContext, say: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let partial = "";
  await followFile(path, {
    signal,
    onChunk(chunk) {
      const parts = (partial + decoder.decode(chunk, { stream: true })).split("\n");
      partial = parts.pop() ?? "";
      for (const line of parts) say(line);
    },
  });
}
