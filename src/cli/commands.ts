import { agentCommand } from "./agent.ts";
import { checkCommand } from "./check.ts";
import type { Command } from "./command.ts";
import { completionCommand } from "./completion.ts";
import { configExplainCommand } from "./config-explain.ts";
import { configListCommand, configSetCommand, configUnsetCommand } from "./config-shared.ts";
import { demoCommand } from "./demo.ts";
import { doctorCommand } from "./doctor.ts";
import { cordonCommand, drainCommand, uncordonCommand } from "./drain.ts";
import { explainCommand } from "./explain.ts";
import { initCommand } from "./init.ts";
import { keyHashCommand } from "./key-hash.ts";
import { keyListCommand } from "./key-list.ts";
import { keyNewCommand } from "./key-new.ts";
import { kvCaptureCommand } from "./kv-capture.ts";
import { kvMatchCommand } from "./kv-match.ts";
import { kvSourcesCommand } from "./kv-sources.ts";
import { kvStatsCommand } from "./kv-stats.ts";
import { kvVerifyCommand } from "./kv-verify.ts";
import { kvcachedCommand } from "./kvcached.ts";
import { loadCommand, unloadCommand } from "./load.ts";
import { logsCommand } from "./logs.ts";
import { manCommand } from "./man.ts";
import { packageVersion } from "./package-version.ts";
import { pkiInitCommand, pkiIssueCommand } from "./pki.ts";
import { planCommand } from "./plan.ts";
import { recipeListCommand, recipeShowCommand, recipeUpCommand } from "./recipe.ts";
import { reloadCommand } from "./reload.ts";
import { renderCommand } from "./render.ts";
import { replayCommand } from "./replay.ts";
import { roleCommand } from "./role.ts";
import { routerCommand } from "./router.ts";
import { runCommand } from "./run.ts";
import { simCommand } from "./sim.ts";
import { simFitCommand } from "./sim-fit.ts";
import { simProfilesCommand } from "./sim-profiles.ts";
import { statusCommand } from "./status.ts";
import { tableCommand } from "./table.ts";
import { topCommand } from "./top.ts";
import { traceExportCommand } from "./trace-export.ts";
import { upCommand } from "./up.ts";
import { usageCommand } from "./usage.ts";

/** Every command, in the order of the help text. */
export const COMMANDS: readonly Command[] = [
  demoCommand,
  initCommand,
  doctorCommand,
  checkCommand,
  configExplainCommand,
  configSetCommand,
  configUnsetCommand,
  configListCommand,
  renderCommand,
  tableCommand,
  recipeListCommand,
  recipeShowCommand,
  recipeUpCommand,
  upCommand,
  runCommand,
  agentCommand,
  reloadCommand,
  roleCommand,
  logsCommand,
  loadCommand,
  unloadCommand,
  routerCommand,
  statusCommand,
  topCommand,
  explainCommand,
  drainCommand,
  cordonCommand,
  uncordonCommand,
  keyNewCommand,
  keyHashCommand,
  keyListCommand,
  pkiInitCommand,
  pkiIssueCommand,
  usageCommand,
  kvcachedCommand,
  kvMatchCommand,
  kvSourcesCommand,
  kvStatsCommand,
  kvCaptureCommand,
  kvVerifyCommand,
  simCommand,
  simProfilesCommand,
  simFitCommand,
  replayCommand,
  planCommand,
  traceExportCommand,
  completionCommand(
    () => COMMANDS,
    () => COMMAND_GROUPS,
  ),
  manCommand(() => COMMANDS, packageVersion),
];

/** What stands beside a command that only groups others. */
export const COMMAND_GROUPS: Readonly<Record<string, string>> = {
  config: "look into a configuration",
  recipe: "configurations that come with cgn",
  kv: "ask and check the prefix index",
  key: "API keys: make them, hash them, list them",
  pki: "certificates of a cluster: an authority, and what it issues",
  trace: "requests of the past",
};
