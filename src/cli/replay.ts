import { accessSync, constants, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { CgnError } from "../core/errors.ts";
import { POLICY_NAMES } from "../routing/policies.ts";
import { findProfile } from "../sim/profiles/find-profile.ts";
import { blocksWithoutLimit } from "../sim/replay/count-blocks.ts";
import { engineLimits } from "../sim/replay/engine-setup.ts";
import type { Trace } from "../sim/replay/read-trace.ts";
import type { ReplayOptions } from "../sim/replay/replay-options.ts";
import { reportPage } from "../sim/replay/report-page.ts";
import { type ReplayRun, runReplay } from "../sim/replay/run-replay.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { startProgress } from "./progress.ts";
import {
  admissionOf,
  bad,
  durationOf,
  FLEET_OPTIONS,
  failuresOf,
  kvOffloadOf,
  optional,
  ROUTER_OPTIONS,
  splitOf,
  TRACE_OPTIONS,
  traceOf,
} from "./replay-flags.ts";
import { replayTable } from "./replay-table.ts";
import { brokenOff } from "./stop-code.ts";

/** `cgn replay`: a trace against model engines and the router's own decisions, in virtual time. */
export const replayCommand: Command = {
  name: "replay",
  about: "play a trace against simulated engines and the router's own decisions, in virtual time",
  examples: [
    "cgn replay trace.jsonl --engines 8 --policy ttft --policy round_robin",
    "cgn replay trace.jsonl --engines 1 --profile instant --blocks 0 --json",
    "cgn replay trace.jsonl --profile h100-8b --kv-offload lmcache --host-gib 64 --report replay.html",
    "cgn replay trace.jsonl --routers 4 --knowledge history --fail 0@10m+30s",
  ],
  positionals: [
    {
      name: "trace",
      about: "file: Mooncake JSON lines, cgn trace export, or CSV of Azure or BurstGPT",
      required: true,
    },
  ],
  options: {
    policy: {
      type: "string[]",
      value: "NAME",
      about: `routing policy: ${POLICY_NAMES.join(", ")} (default ttft). Repeated: one run each`,
    },
    profile: {
      type: "string",
      value: "NAME|FILE",
      default: "default",
      about: "how fast an engine is; see cgn sim profiles. instant: work takes no time",
    },
    ...FLEET_OPTIONS,
    ...ROUTER_OPTIONS,
    ...TRACE_OPTIONS,
    report: { type: "string", value: "FILE.html", about: "write a page with plots" },
    json: { type: "boolean", about: "print JSON, one object a run" },
  },
  async run({ options, positionals }, cli) {
    const trace = await traceOf(positionals[0] ?? "", options, cli);
    const report = typeof options["report"] === "string" ? resolve(cli.cwd, options["report"]) : undefined;
    if (report !== undefined) checkFolder(report);
    const runs: ReplayRun[] = [];
    for (const policy of policiesOf(options)) {
      const run = await playOnce(trace, policy, options, cli);
      if (run === undefined) return brokenOff(cli.signal);
      runs.push(run);
      if (options["json"]) cli.out(JSON.stringify(run.figures));
    }
    if (!options["json"]) cli.out(replayTable(runs));
    if (report !== undefined) writeReport(report, runs, cli);
    return 0;
  },
};

/** Undefined: stopped by a signal. */
async function playOnce(
  trace: Trace,
  policy: string,
  options: Values,
  cli: CliContext,
): Promise<ReplayRun | undefined> {
  const replay = await replayOptions(trace, policy, options, cli);
  const progress = process.stderr.isTTY === true ? startProgress(policy) : undefined;
  const stopped = new CgnError("CALLER_LEFT", "Stopped by a signal", {});
  try {
    const run = await runReplay(trace, replay, {
      label: policy,
      kvOffload: kvOffloadOf(options),
      wallNow: () => cli.clock.now(),
      onProgress(share) {
        progress?.update(share);
        if (cli.signal.aborted) throw stopped;
      },
    });
    progress?.done(`${run.figures.requests} requests`);
    return run;
  } catch (e) {
    progress?.stop("stopped");
    if (e === stopped) return undefined;
    throw e;
  }
}

function policiesOf(options: Values): readonly string[] {
  const given = (options["policy"] as readonly string[] | undefined) ?? ["ttft"];
  for (const name of given) {
    if (!POLICY_NAMES.some((known) => known === name))
      throw bad(`Cannot route by "${name}": there is no such policy. Use ${POLICY_NAMES.join(", ")}`);
  }
  return given;
}

async function replayOptions(trace: Trace, policy: string, options: Values, cli: CliContext): Promise<ReplayOptions> {
  const split = typeof options["pd"] === "string" ? splitOf(options["pd"]) : undefined;
  const engines = split === undefined ? Number(options["engines"]) : split.prefill + split.decode;
  const profile = findProfile(String(options["profile"]), cli.cwd);
  const blocks = optional(options["blocks"]);
  const limits = engineLimits({
    profile,
    kvOffload: kvOffloadOf(options),
    hostGib: Number(options["hostGib"]),
    diskGib: Number(options["diskGib"]),
    blockTokens: trace.blockTokens,
    blocks: blocks === 0 ? await blocksWithoutLimit(trace) : blocks,
    maxBatchedTokens: Number(options["maxBatchedTokens"]),
    maxSequences: Number(options["maxSeqs"]),
  });
  return {
    policy,
    routers: Number(options["routers"]),
    engines,
    disaggregated:
      split === undefined ? undefined : { ...split, colocateBelowTokens: Number(options["colocateBelow"]) },
    limits,
    profile,
    gpusPerEngine: profile.gpus ?? 1,
    seed: Number(options["seed"]),
    knowledge: options["knowledge"] === "history" ? "history" : "events",
    knowledgeDelayMs: durationOf(options, "knowledgeDelay", "--knowledge-delay") ?? 0,
    historyEntries: Number(options["historyEntries"]),
    lostEvents: Number(options["loseEvents"]),
    shareBookingsMs: durationOf(options, "shareBookings", "--share-bookings"),
    failures: failuresOf(options, engines),
    admission: admissionOf(options),
  };
}

/** A long replay must not end with nowhere to put its report. */
function checkFolder(path: string): void {
  try {
    accessSync(dirname(path), constants.W_OK);
  } catch (e) {
    throw unwritable(path, e);
  }
}

function unwritable(path: string, e: unknown): CgnError {
  const said = e instanceof Error ? e.message : String(e);
  return new CgnError("STORAGE_UNUSABLE", `Cannot write the report ${path}: ${said}`, { path });
}

function writeReport(path: string, runs: readonly ReplayRun[], cli: CliContext): void {
  try {
    writeFileSync(path, reportPage(runs));
  } catch (e) {
    throw unwritable(path, e);
  }
  cli.err(`Report: ${path}`);
}
