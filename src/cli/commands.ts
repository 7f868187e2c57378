import type { Command } from "./command.ts";
import { simCommand } from "./sim.ts";

/** Every command, in the order of the help text. */
export const COMMANDS: readonly Command[] = [simCommand];

/** What stands beside a command that only groups others. */
export const COMMAND_GROUPS: Readonly<Record<string, string>> = {
  config: "look into a configuration",
  kv: "ask and check the prefix index",
};
