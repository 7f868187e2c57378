import type { Problem } from "../core/errors.ts";
import type { PlanReason } from "../core/launch-plan.ts";
import type { EngineSlot } from "./engine.ts";

/** A flag that a launch renders. */
export interface Arg {
  /** The rendered spelling first, then every other one that a user may write (`-tp`, `--tp`, `--no-enable-x`). */
  readonly names: readonly [string, ...string[]];
  /** Empty: a bare flag. */
  readonly values: readonly string[];
  readonly why: string;
  /** Project, file or doc page, version. */
  readonly source: string;
}

/** One flag of what the user wrote, with the words that follow it. */
export interface UserFlag {
  /** Without `=value`; underscores of long flags as hyphens: `--tensor_parallel_size=2` is `--tensor-parallel-size`. */
  readonly name: string;
  readonly values: readonly string[];
  /** The words as written. */
  readonly words: readonly string[];
}

export interface ComposeRules {
  /** Python's argparse takes any unambiguous beginning of a long flag for the flag (`--tensor-parallel 2`). */
  readonly abbreviations?: boolean;
}

export interface Composed {
  readonly argv: readonly string[];
  /** One for each rendered flag and for each that the user wrote, in argv's order. */
  readonly reasons: readonly PlanReason[];
  /** Flags that were left out because the user wrote them himself. */
  readonly replaced: readonly Arg[];
}

/** Where a value that the user wrote came from, in reasons. */
const WRITTEN = "extra_args";

/** Make a flag; `undefined` leaves it out, `true` renders it bare, a list gives it several values. */
export function arg(
  names: string | readonly [string, ...string[]],
  value: string | number | true | undefined | readonly string[],
  why: string,
  source: string,
): Arg[] {
  if (value === undefined) return [];
  const values = value === true ? [] : typeof value === "object" ? value : [String(value)];
  return [{ names: typeof names === "string" ? [names] : names, values, why, source }];
}

/**
 * Split what the user wrote into flags. Words before the first flag come as one flag with the name "".
 * A word is a flag when it starts with `-` and is no number (`-1` is a value).
 */
export function parseUserArgs(userArgs: readonly string[]): UserFlag[] {
  const flags: { name: string; values: string[]; words: string[] }[] = [];
  for (const word of userArgs) {
    if (isFlag(word)) flags.push(splitFlag(word));
    else if (flags.length === 0) flags.push({ name: "", values: [word], words: [word] });
    else {
      const last = flags[flags.length - 1]!;
      last.values.push(word);
      last.words.push(word);
    }
  }
  return flags;
}

/** The last value that the user gave one of these flags; "" for a bare flag, undefined when he wrote none of them. */
export function userValue(
  userArgs: readonly string[],
  names: readonly string[],
  rules: ComposeRules = {},
): string | undefined {
  const found = userFlags(userArgs, names, rules).filter((flag) => !isDotted(flag.name));
  return found.length === 0 ? undefined : (found[found.length - 1]!.values[0] ?? "");
}

/** Every occurrence of one of these flags, dotted ones (`--kv-transfer-config.kv_connector`) included. */
export function userFlags(userArgs: readonly string[], names: readonly string[], rules: ComposeRules = {}): UserFlag[] {
  return parseUserArgs(userArgs).filter((flag) => names.some((name) => isSameFlag(flag.name, name, rules)));
}

/** Did the user write this flag in any spelling? */
export function userWrote(userArgs: readonly string[], names: readonly string[], rules: ComposeRules = {}): boolean {
  return userFlags(userArgs, names, rules).length > 0;
}

/**
 * Join rendered flags with the user's. What the user wrote wins: the rendered flag is left out, and of several writings
 * of one rendered flag only the last stays. The user's flags follow the rendered ones, in his order.
 *
 * @param userArgs - the engine section's `extra_args`, then the model's: the later wins.
 */
export function composeArgs(args: readonly Arg[], userArgs: readonly string[], rules: ComposeRules = {}): Composed {
  const written = lastOfEach(args, parseUserArgs(userArgs), rules);
  const isReplaced = (a: Arg): boolean => written.some((flag) => setsArg(flag.name, a, rules));
  const kept = args.filter((a) => !isReplaced(a));
  const replaced = args.filter(isReplaced);
  return {
    argv: [...kept.flatMap((a) => [a.names[0], ...a.values]), ...written.flatMap((flag) => flag.words)],
    reasons: [
      ...kept.map((a) => ({ arg: a.names[0], why: a.why, source: a.source })),
      ...written.map((flag) => userReason(flag, replaced, rules)),
    ],
    replaced,
  };
}

/**
 * Problems of a `--host` or `--port` in `extra_args` that contradicts the address which the configuration gives the engine.
 *
 * @param path - dotted key of the `extra_args` that were written, for the message.
 */
export function addressProblems(
  userArgs: readonly string[],
  slot: EngineSlot,
  path: string,
  rules: ComposeRules = {},
): Problem[] {
  const problems: Problem[] = [];
  const port = userValue(userArgs, ["--port"], rules);
  if (port !== undefined && port !== String(slot.port)) {
    const problem = `--port ${port} in extra_args contradicts port ${slot.port} of engine.url`;
    problems.push({ severity: "error", path, problem, remedy: "Remove --port, or write the same port in engine.url" });
  }
  const host = userValue(userArgs, ["--host"], rules);
  if (host !== undefined && !covers(host, slot.host)) {
    const problem = `--host ${host} in extra_args contradicts host ${slot.host} of engine.url`;
    problems.push({ severity: "error", path, problem, remedy: "Remove --host, or write the same host in engine.url" });
  }
  return problems;
}

function isFlag(word: string): boolean {
  return /^-{1,2}[A-Za-z]/.test(word);
}

function isDotted(name: string): boolean {
  return name.startsWith("--") && name.includes(".");
}

function splitFlag(word: string): { name: string; values: string[]; words: string[] } {
  const equals = word.indexOf("=");
  const name = equals < 0 ? word : word.slice(0, equals);
  return { name: canonicalName(name), values: equals < 0 ? [] : [word.slice(equals + 1)], words: [word] };
}

/** Hyphens for underscores, but only before the first dot: what follows is a key of the flag's JSON. */
function canonicalName(name: string): string {
  if (!name.startsWith("--")) return name;
  const dot = name.indexOf(".");
  return dot < 0 ? name.replaceAll("_", "-") : name.slice(0, dot).replaceAll("_", "-") + name.slice(dot);
}

function isSameFlag(written: string, known: string, rules: ComposeRules): boolean {
  const base = isDotted(written) ? written.slice(0, written.indexOf(".")) : written;
  if (base === canonicalName(known)) return true;
  return rules.abbreviations === true && base.startsWith("--") && base.length > 4 && known.startsWith(base);
}

/** A bare `--enable-x` is also set by `--no-enable-x`. */
function setsArg(written: string, a: Arg, rules: ComposeRules): boolean {
  if (a.names.some((name) => isSameFlag(written, name, rules))) return true;
  return a.values.length === 0 && a.names.some((name) => written === `--no-${name.slice(2)}`);
}

/**
 * Dotted flags each set one key, so all of them stay. Of flags that cgn does not know only switches are settled here
 * (`--x`, `--no-x`: an engine's default `extra_args` may hold what a model's undo), since others may be meant to repeat.
 */
function lastOfEach(args: readonly Arg[], flags: readonly UserFlag[], rules: ComposeRules): UserFlag[] {
  const ownerOf = (flag: UserFlag): Arg | undefined => args.find((a) => setsArg(flag.name, a, rules));
  return flags.filter((flag, i) => {
    const owner = ownerOf(flag);
    if (isDotted(flag.name)) return true;
    if (owner === undefined) return !flags.slice(i + 1).some((later) => isSameSwitch(flag, later));
    return !flags.slice(i + 1).some((later) => !isDotted(later.name) && ownerOf(later) === owner);
  });
}

function isSameSwitch(a: UserFlag, b: UserFlag): boolean {
  if (!a.name.startsWith("--") || a.values.length > 0 || b.values.length > 0) return false;
  return a.name.replace(/^--no-/, "--") === b.name.replace(/^--no-/, "--");
}

function userReason(flag: UserFlag, replaced: readonly Arg[], rules: ComposeRules): PlanReason {
  const instead = replaced.find((a) => setsArg(flag.name, a, rules));
  const why =
    instead === undefined
      ? "Written by the user"
      : `Written by the user, in place of ${[instead.names[0], ...instead.values].join(" ")}`;
  return { arg: flag.name === "" ? (flag.words[0] ?? "") : flag.name, why, source: WRITTEN };
}

/** Does a server bound to `bound` answer on `wanted`? */
function covers(bound: string, wanted: string): boolean {
  const same = (host: string): string => (host === "localhost" || host === "::1" ? "127.0.0.1" : host);
  return ["0.0.0.0", "::", ""].includes(bound) || same(bound) === same(wanted);
}
