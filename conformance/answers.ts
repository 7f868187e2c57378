import type { EngineKind, Role } from "../src/core/engine-kind.ts";
import type { KvOffload } from "../src/core/kv-offload.ts";

/** How far a program went with a command line: the last stage that it passed, or the one that refused. */
export type Stage =
  | "argparse"
  | "validate"
  | "config"
  | "connector"
  | "construct"
  | "resolve"
  | "check"
  | "events"
  | "settings"
  | "help"
  | "start"
  | "crash";

/** A command line to put to a program. */
export interface Question {
  readonly id: string;
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly construct?: boolean;
}

/** What it said. */
export interface Answer {
  readonly id: string;
  readonly ok: boolean;
  readonly stage: Stage;
  readonly error: string | null;
  readonly warnings: readonly string[];
}

/** A supported cell in one variant, and what one program at one version made of it. */
export interface CellAnswer {
  readonly program: string;
  readonly version: string;
  readonly kind: EngineKind;
  readonly offload: KvOffload;
  readonly role: Role;
  readonly variant: string;
  readonly ok: boolean;
  readonly stage: Stage;
  /** Why it was refused. */
  readonly error?: string;
  /** `launchShape()` of what was asked. */
  readonly shape: string;
  /** ISO date. */
  readonly on: string;
}

/** A launch that cgn refuses, and what the program makes of it. */
export interface WrongAnswer {
  readonly name: string;
  readonly program: string;
  readonly version: string;
  /** cgn's error code, and its words; empty when it did not refuse, which is a failure. */
  readonly code: string;
  readonly ours: string;
  readonly refused: boolean;
  readonly stage: Stage;
  readonly theirs: string;
  /** Why cgn refuses what the program takes; written where one is known to. */
  readonly because?: string;
  readonly on: string;
}

/** Something that was started. */
export interface LiveAnswer {
  readonly name: string;
  readonly programs: readonly string[];
  readonly ok: boolean;
  /** What was seen, or what went wrong. */
  readonly said: string;
  readonly seconds: number;
  readonly cells: readonly string[];
  readonly shapes: readonly string[];
  readonly on: string;
}

export interface Results {
  readonly cells: readonly CellAnswer[];
  readonly wrong: readonly WrongAnswer[];
  readonly live: readonly LiveAnswer[];
}
