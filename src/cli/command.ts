import type { Clock } from "../core/clock.ts";

/** All that a command may touch. Tests pass their own; only `main.ts` builds the real one. */
export interface CliContext {
  /** Data, to stdout. A newline is added. */
  out(text: string): void;
  /** Talk (progress, notes, errors), to stderr. A newline is added. */
  err(text: string): void;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Colour is allowed on stderr/stdout: a terminal, and no NO_COLOR. */
  readonly color: boolean;
  /** Aborted by the first SIGINT or SIGTERM; `reason` is the signal's name. */
  readonly signal: AbortSignal;
  /** Called on SIGHUP, which then ends nothing; the result takes it back. At a terminal SIGHUP ends the command all the same. */
  onHangup?(listener: () => void): () => void;
  readonly clock: Clock;
}

/** What a number may be. Both ends are allowed values. */
export interface NumberRange {
  readonly min?: number;
  readonly max?: number;
  /** No fractions. */
  readonly whole?: boolean;
}

/** An option. `string[]` may be repeated; `number` is checked to be finite, and within its range. */
export interface Option extends NumberRange {
  readonly type: "string" | "boolean" | "number" | "string[]";
  /** What stands for the value in the help text. */
  readonly value?: string;
  readonly about: string;
  readonly default?: string | number | boolean;
  readonly choices?: readonly string[];
  /** Values that shells offer; others are judged where they are read, with their place. */
  readonly offers?: readonly string[];
  /** Takes all words up to the next option (`--engines URL URL`). Only with `string[]`. */
  readonly variadic?: boolean;
}

/** A TCP port that is given; `ANY_PORT` takes 0 for any free one. */
export const PORT = { type: "number", value: "PORT", whole: true, min: 1, max: 65_535 } as const;
export const ANY_PORT = { ...PORT, min: 0 } as const;

/** The longest time that a timer can wait, in seconds. */
export const MAX_SECONDS = 2_147_483;

export interface Positional {
  readonly name: string;
  readonly about: string;
  readonly required: boolean;
  /** Takes all the rest. */
  readonly variadic?: boolean;
  readonly choices?: readonly string[];
}

/** Option values by their name in camelCase; absent when not given and without a default. */
export type Values = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/**
 * A command is data plus one function. Help, shell completion and docs/cli.md are printed from the data.
 *
 * `name` may hold a space (`kv verify`). `run` gives the exit code (0 when nothing is returned); a thrown `CgnError` is
 * printed by `main.ts` and ends with the code's exit.
 */
export interface Command {
  readonly name: string;
  readonly about: string;
  readonly examples: readonly string[];
  readonly positionals?: readonly Positional[];
  /** By long name without dashes, kebab-case. */
  readonly options: Readonly<Record<string, Option>>;
  run(
    args: { readonly options: Values; readonly positionals: readonly string[] },
    cli: CliContext,
  ): Promise<number | undefined>;
}

/** `--log-level`: an option of every command that goes on running. */
export const LOG_OPTIONS = {
  "log-level": {
    type: "string",
    about: "what is logged",
    default: "info",
    choices: ["debug", "info", "warn", "error"],
  },
} as const satisfies Record<string, Option>;

/** `--config`, `--set`: the options of every command that loads a configuration. */
export const CONFIG_OPTIONS = {
  config: {
    type: "string",
    value: "FILE",
    about: "configuration file (else $CGN_CONFIG, ./cgn.toml, /etc/cognitora/cognitora.toml)",
  },
  set: { type: "string[]", value: "KEY=VALUE", about: "override any key, for example --set router.policy=round_robin" },
} as const satisfies Record<string, Option>;
