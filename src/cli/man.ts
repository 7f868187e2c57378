import type { Command } from "./command.ts";
import { manPage } from "./man-page.ts";

/** `cgn man`. @param all every command, asked for when it runs: this one is among them */
export function manCommand(all: () => readonly Command[], version: () => string): Command {
  return {
    name: "man",
    about: "print the manual page, for man -l",
    examples: ["cgn man > cgn.1 && man -l cgn.1"],
    options: {},
    async run(_args, cli) {
      cli.out(manPage(all(), version()).trimEnd());
      return 0;
    },
  };
}
