import { isCgnError } from "../../core/errors.ts";
import type { EngineProfile } from "../model/profile.ts";
import { findProfile } from "../profiles/find-profile.ts";
import { type FlagTable, fail, type ParsedArgs } from "./argparse.ts";
import { type Fault, readFault } from "./faults.ts";

/** The simulator's own flags; they stand beside the engine's on either command line. */
export const SIM_FLAGS: FlagTable = {
  "sim-profile": "text",
  "sim-blocks": "int",
  "sim-load-seconds": "float",
  "sim-speed": "float",
  "sim-seed": "int",
  "sim-events": { choices: ["map", "array"] },
  "sim-hashes": { choices: ["int", "bytes"] },
  "sim-fault": "many",
  "sim-orphans": "int",
  "sim-host-gib": "float",
  "sim-disk-gib": "float",
};

/** What those flags say, with their defaults. */
export interface SimFlags {
  readonly profile: EngineProfile;
  readonly blocks: number | undefined;
  readonly loadMs: number;
  readonly speed: number;
  readonly seed: number;
  readonly shape: "map" | "array";
  readonly hashes: "int" | "bytes" | undefined;
  readonly faults: readonly Fault[];
  /** Child processes that outlive a killed parent. */
  readonly orphans: number;
}

/** @throws CgnError BAD_INVOCATION */
export function readSimFlags(program: string, args: ParsedArgs): SimFlags {
  const text = (name: string): string | undefined => args.values.get(name)?.[0];
  const blocks = text("sim-blocks");
  const speed = Number(text("sim-speed") ?? 1);
  if (!(speed > 0)) fail(program, "argument --sim-speed: must be above 0");
  return {
    profile: profileOf(program, text("sim-profile") ?? "default"),
    blocks: blocks === undefined ? undefined : Number(blocks),
    loadMs: 1000 * Number(text("sim-load-seconds") ?? 0),
    speed,
    seed: Number(text("sim-seed") ?? 0),
    shape: text("sim-events") === "array" ? "array" : "map",
    hashes: text("sim-hashes") as "int" | "bytes" | undefined,
    orphans: Math.max(0, Number(text("sim-orphans") ?? 0)),
    faults: (args.values.get("sim-fault") ?? []).map((json) => faultOf(program, json)),
  };
}

/** A shipped profile, or a file of one. */
function profileOf(program: string, name: string): EngineProfile {
  try {
    return findProfile(name, process.cwd());
  } catch (e) {
    return fail(program, `argument --sim-profile: ${isCgnError(e) ? e.message : String(e)}`);
  }
}

function faultOf(program: string, json: string): Fault {
  const fault = readFault(json.startsWith("{") ? parseJson(program, "sim-fault", json) : { kind: json });
  if (typeof fault === "string") fail(program, `argument --sim-fault: ${fault}`);
  return fault;
}

/** @throws CgnError BAD_INVOCATION when the text is no JSON object */
export function parseJson(program: string, flag: string, text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Told below.
  }
  return fail(program, `argument --${flag}: Value ${text} cannot be converted to an object.`);
}

/** Settle how much cache there is, and how long a request may be. @throws CgnError BAD_INVOCATION when they contradict */
export function settleSizes(
  program: string,
  sizes: { readonly blocks: number; readonly blockTokens: number; readonly maxModelTokens: number | undefined },
): { readonly blocks: number; readonly maxModelTokens: number } {
  const { blocks, blockTokens } = sizes;
  if (blocks < 1 || blockTokens < 1) fail(program, "blocks and block size must be at least 1");
  const room = blocks * blockTokens;
  const maxModelTokens = sizes.maxModelTokens ?? Math.min(32_768, room);
  if (maxModelTokens > room) {
    fail(
      program,
      `the model's max seq len (${maxModelTokens}) is larger than the KV cache (${room} tokens in ${blocks} blocks)`,
    );
  }
  return { blocks, maxModelTokens };
}
