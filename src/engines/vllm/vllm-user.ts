import type { Problem } from "../../core/errors.ts";
import type { PlanWarning } from "../../core/launch-plan.ts";
import { addressProblems, userFlags, userValue, userWrote } from "../args.ts";
import { count, EXTRA_ARGS_PATH, type PlanPart, RULES, type VllmLaunch } from "./vllm-context.ts";
import { transferConfigProblems } from "./vllm-user-transfer.ts";
import { valueProblems } from "./vllm-user-values.ts";

/** Flags that some release refuses at start (its own parser, 0.32.0 and 0.33.0). */
const REFUSED_FLAGS = [
  {
    flag: "--disable-log-requests",
    by: "vLLM 0.32 and older",
    remedy: "Remove it: requests are not logged unless --enable-log-requests is written",
  },
] as const;

/** On a CPU vLLM takes only such block sizes; others pass its parser and end the engine 26 s later (0.32.0). */
const CPU_BLOCK_STEP = 32;

/** Names the connector that carries KV between engines. */
export const TRANSFER_FLAG = "--kv-transfer-config";

/** What is wrong, or worth saying, in what the user wrote himself. */
export function userPart(launch: VllmLaunch): PlanPart {
  return {
    problems: [
      ...addressProblems(launch.userArgs, launch.input.slot, EXTRA_ARGS_PATH, RULES),
      ...transferProblems(launch),
      ...valueProblems(launch),
      ...sizeProblems(launch),
    ],
    warnings: [...transferWarnings(launch), ...stopWarnings(launch), ...refusedFlags(launch)],
  };
}

function problem(text: string, remedy: string, path = EXTRA_ARGS_PATH): Problem {
  return { severity: "error", path, problem: text, remedy };
}

function transferProblems(launch: VllmLaunch): Problem[] {
  const flags = userFlags(launch.userArgs, ["--kv-transfer-config"], RULES);
  const problems = flags
    .filter((flag) => !flag.name.includes("."))
    .flatMap((flag) => transferConfigProblems(flag.values[0] ?? "", launch.features.oldTransferKeys))
    .map((text) =>
      problem(`--kv-transfer-config: ${text}`, "Remove the flag and let kv_offload render it, or mend it"),
    );
  const hasConnector = launch.input.offload !== "none" || flags.length > 0;
  if (hasConnector && userWrote(launch.userArgs, ["--kv-offloading-size"], RULES)) {
    const text =
      launch.input.offload === "none"
        ? "--kv-offloading-size beside --kv-transfer-config: vLLM would replace the connector without a word"
        : `--kv-offloading-size beside kv_offload "${launch.input.offload}": vLLM would replace the connector without a word`;
    problems.push(problem(text, 'Remove --kv-offloading-size, or set kv_offload = "none" and no --kv-transfer-config'));
  }
  return problems;
}

function sizeProblems(launch: VllmLaunch): Problem[] {
  const { model, slot } = launch.input;
  const problems: Problem[] = [];
  if (slot.platform === "cpu" && launch.blockTokens % CPU_BLOCK_STEP !== 0) {
    const text = `a block size of ${launch.blockTokens} ends vLLM on a CPU some 26 s after its start`;
    problems.push(problem(text, `Write a multiple of ${CPU_BLOCK_STEP}`, "kv.block_size_tokens"));
  }
  const tp = count(userValue(launch.userArgs, ["--tensor-parallel-size", "-tp", "--tp"], RULES)) ?? model.tp;
  if (slot.gpus !== undefined && slot.platform !== "cpu" && slot.gpus.length < tp) {
    const text = `tp = ${tp} needs ${tp} GPUs and the engine has ${slot.gpus.length} (${slot.gpus.join(", ")})`;
    problems.push(problem(text, "Give the engine more GPUs, or lower tp", `models."${model.name}".tp`));
  }
  return problems;
}

function transferWarnings(launch: VllmLaunch): PlanWarning[] {
  if (!userWrote(launch.userArgs, [TRANSFER_FLAG], RULES)) return [];
  const { offload, role } = launch.input;
  const where = userWrote(launch.template, [TRANSFER_FLAG], RULES) ? "vllm_cmd" : "extra_args";
  const alone = offload === "none" && role !== "both";
  const dial = alone
    ? `is the ${role} engine's only connector: kv_offload is "none"`
    : `is used in place of what kv_offload "${offload}" renders`;
  const other = alone
    ? 'Set kv_offload to "nixl", "lmcache" or "kvbm" and remove it'
    : "Remove it to let kv_offload decide";
  return [
    {
      code: "kv-transfer-config-written",
      message: `${TRANSFER_FLAG} in ${where} ${dial}`,
      remedy: `${other}, or keep it and see that its ports and packages fit`,
    },
  ];
}

function stopWarnings(launch: VllmLaunch): PlanWarning[] {
  const written = userValue(launch.userArgs, ["--shutdown-timeout"], RULES);
  if (written === undefined) return [];
  const graceS = launch.input.drainGraceMs / 1000;
  if (Number(written) === 0) {
    return [
      {
        code: "shutdown-timeout-zero",
        message:
          "--shutdown-timeout 0 makes vLLM hang on SIGTERM while a request runs; it will be killed after the grace",
        remedy: "Remove --shutdown-timeout, or write at least 1",
      },
    ];
  }
  if (!(Number(written) >= graceS)) return [];
  return [
    {
      code: "shutdown-timeout-above-grace",
      message: `--shutdown-timeout ${written} is not below the drain grace of ${graceS} s, after which the engine is killed`,
      remedy: "Raise the drain grace, or remove --shutdown-timeout",
    },
  ];
}

function refusedFlags(launch: VllmLaunch): PlanWarning[] {
  const accepted = launch.features.refusesDisableLogRequests === false ? ["--disable-log-requests"] : [];
  const written = REFUSED_FLAGS.filter(({ flag }) => userWrote(launch.userArgs, [flag]) && !accepted.includes(flag));
  return written.map(({ flag, by, remedy }) => ({
    code: "flag-refused",
    message: `${flag} is refused by ${by}, which then does not start`,
    remedy,
  }));
}
