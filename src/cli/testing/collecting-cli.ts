import type { CliContext } from "../command.ts";
import { systemClock } from "../system-clock.ts";

/** The surroundings of a command that asks a router, and the lines that it prints. */
export function collectingCli(): { readonly cli: CliContext; readonly out: string[] } {
  const out: string[] = [];
  const cli: CliContext = {
    out: (text) => void out.push(text),
    err: () => {},
    env: {},
    cwd: ".",
    color: false,
    signal: new AbortController().signal,
    clock: systemClock(),
  };
  return { cli, out };
}
