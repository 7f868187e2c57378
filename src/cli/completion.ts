import type { Command } from "./command.ts";
import { completionScript, SHELLS, type Shell } from "./shell-completion.ts";

/** `cgn completion SHELL`. @param all every command, asked for when it runs: this one is among them */
export function completionCommand(
  all: () => readonly Command[],
  groups: () => Readonly<Record<string, string>>,
): Command {
  return {
    name: "completion",
    about: "print a shell's completion script: commands, options and their values",
    examples: [
      "source <(cgn completion bash)",
      "source <(cgn completion zsh)",
      "cgn completion fish > ~/.config/fish/completions/cgn.fish",
    ],
    positionals: [{ name: "SHELL", about: SHELLS.join(", "), required: true, choices: SHELLS }],
    options: {},
    async run({ positionals }, cli) {
      cli.out(completionScript(positionals[0] as Shell, all(), groups()).trimEnd());
      return 0;
    },
  };
}
