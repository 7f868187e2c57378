import { ROLES, type Role } from "../core/engine-kind.ts";
import { isCgnError } from "../core/errors.ts";
import { KV_OFFLOADS, type KvOffload } from "../core/kv-offload.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Engine, EngineSlot, ModelSpec } from "./engine.ts";
import { SAMPLE_MODEL, SAMPLE_SLOT, sampleInput } from "./sample-input.ts";

/** One way to write an engine's options. `npm run conformance` puts the launch of each to the engine's own program. */
export interface EngineVariant {
  /** Kebab-case, unique for an engine. The first is what an engine's section renders with nothing written. */
  readonly name: string;
  /** The program that takes its command line: a name in `conformance/pins.ts`. */
  readonly program: string;
  /** The engine's TOML section. */
  readonly section?: Readonly<Record<string, unknown>>;
  readonly model?: Partial<ModelSpec>;
  /** Computes on the CPU: no GPUs, and what an engine needs to be told then. */
  readonly onCpu?: boolean;
  /** `[kv].block_size_tokens`. */
  readonly blockTokens?: number;
  /** Which supported cells it is for; all of them when left out. */
  for?(offload: KvOffload, role: Role): boolean;
}

/** A supported cell of the table in one variant. */
export interface VariantCell {
  readonly engine: Engine;
  readonly offload: KvOffload;
  readonly role: Role;
  readonly variant: EngineVariant;
}

/**
 * The launch of a variant on the sample host.
 *
 * @param version - of the engine that is asked; left out, what is rendered for an unknown version
 */
export function variantPlan({ engine, offload, role, variant }: VariantCell, version?: string): LaunchPlan {
  const slot = { ...slotOf(variant), ...(version === undefined ? {} : { engineVersion: version }) };
  return engine.launch(
    sampleInput(engine.schema.parse(variant.section ?? {}), {
      offload,
      role,
      model: { ...SAMPLE_MODEL, ...variant.model },
      slot,
      ...(variant.blockTokens === undefined ? {} : { blockTokens: variant.blockTokens }),
    }),
  );
}

/** The shape of that launch; undefined where cgn refuses the variant for that version. */
export function variantShape(cell: VariantCell, version?: string): string | undefined {
  try {
    return launchShape(variantPlan(cell, version));
  } catch (error) {
    if (isCgnError(error)) return undefined;
    throw error;
  }
}

function slotOf({ onCpu }: EngineVariant): EngineSlot {
  if (onCpu !== true) return SAMPLE_SLOT;
  const { gpus: _, ...rest } = SAMPLE_SLOT;
  return { ...rest, platform: "cpu" };
}

/**
 * The shape of a launch: 12 hex digits that stay the same when only numbers in it change (ports, sizes, counts), and differ
 * when a flag, a key in its JSON, a variable or a server beside it does. What a real engine accepted is kept under it.
 */
export function launchShape(plan: LaunchPlan): string {
  const { argv, env, sidecars } = plan;
  const parts = [argv, Object.entries(env).sort(), sidecars.map((s) => [s.argv, Object.entries(s.env).sort()])];
  return fnv1a64(JSON.stringify(parts).replace(/\d+/g, "#")).slice(0, 12);
}

/** FNV-1a over UTF-16 units, 64 bits: short and the same everywhere. Nothing here resists an attacker, or must. */
function fnv1a64(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (let i = 0; i < text.length; i++) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(text.charCodeAt(i))) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, "0");
}

/** Every supported cell in every variant of these engines, in the table's order. */
export function variantCells(engines: readonly Engine[]): VariantCell[] {
  return engines.flatMap((engine) =>
    KV_OFFLOADS.flatMap((offload) =>
      ROLES.filter((role) => engine.cell(offload, role).supported).flatMap((role) =>
        engine.variants
          .filter((variant) => variant.for?.(offload, role) ?? true)
          .map((variant) => ({ engine, offload, role, variant })),
      ),
    ),
  );
}
