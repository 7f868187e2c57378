import type { Role } from "../core/engine-kind.ts";
import type { KvOffload } from "../core/kv-offload.ts";
import type { Engine } from "./engine.ts";
import { type VariantCell, variantCells, variantShape } from "./variant.ts";
import { STARTED, TAKEN } from "./verified-data.ts";

/** What is known of a cell beyond reading: which real program took its rendering, and how far. */
export interface Verified {
  /** The program, for example `vllm`. */
  readonly engine: string;
  readonly version: string;
  readonly how: string;
  /** ISO date of the day it was asked. */
  readonly on: string;
}

/** Command lines that versions of one program took. Cells are `kind/offload/role`. */
export interface Taken {
  readonly program: string;
  /** Version → ISO date. */
  readonly asked: Readonly<Record<string, string>>;
  /** Last stage passed, `launchShape()`, and the versions that took it, parted by spaces. */
  readonly taken: readonly (readonly [cell: string, variant: string, stage: string, shape: string, versions: string])[];
}

/** Engines that were started together by `cgn agent` on a machine without a GPU. Cells are `kind/offload/role/variant`. */
export interface Started {
  /** With their versions, joined by ` + `. */
  readonly programs: string;
  readonly on: string;
  readonly said: string;
  readonly cells: readonly (readonly [cell: string, shape: string])[];
}

/** How far a program went, by the last stage it passed. */
const HOW: Readonly<Record<string, string>> = {
  argparse: "taken by its own parser",
  connector: "taken by its own parser, config validation and connector factory",
  construct: "taken by its own parser and config validation; its factory made the connector",
  check: "taken by its own parser and resolution, GPU facts stood in for",
  events: "taken by its own parser and resolution, GPU facts stood in for",
  settings: "taken by its own parser and settings",
  help: "each flag is in its recorded help",
};

/**
 * What proves a cell as it is rendered now; empty when nothing does. A rendering that has changed since a program took it
 * is proved no more, until `npm run conformance` asks again.
 */
export function verifiedBy(engine: Engine, offload: KvOffload, role: Role): readonly Verified[] {
  const cells = variantCells([engine]).filter((cell) => cell.offload === offload && cell.role === role);
  return [...takenBy(cells), ...startedWith(cells)];
}

const nameOf = ({ engine, offload, role }: VariantCell): string => [engine.kind, offload, role].join("/");

function takenBy(cells: readonly VariantCell[]): Verified[] {
  return TAKEN.flatMap(({ program, asked, taken }) => {
    const own = cells.filter(({ variant }) => variant.program === program);
    return Object.entries(asked).flatMap(([version, on]) => {
      const good = own.flatMap((cell) => {
        const shape = variantShape(cell, version);
        return taken.filter(
          ([name, variant, , took, versions]) =>
            name === nameOf(cell) &&
            variant === cell.variant.name &&
            took === shape &&
            versions.split(" ").includes(version),
        );
      });
      const [first] = good;
      if (first === undefined) return [];
      const list = good.map(([, variant]) => variant).join(", ");
      return [{ engine: program, version, how: `${HOW[first[2]] ?? first[2]} (${list})`, on }];
    });
  });
}

function startedWith(cells: readonly VariantCell[]): Verified[] {
  return STARTED.flatMap(({ programs, on, said, cells: started }) => {
    const current = cells.find((cell) => {
      const row = started.find(([name]) => name === `${nameOf(cell)}/${cell.variant.name}`);
      return row !== undefined && row[1] === variantShape(cell, versionIn(programs, cell.variant.program));
    });
    if (current === undefined) return [];
    const engine = current.variant.program;
    return [{ engine, version: versionIn(programs, engine) ?? "", how: `started by cgn agent: ${said}`, on }];
  });
}

/** `vllm 0.32.0 + lmcache 0.5.6`, `vllm` → `0.32.0`. */
function versionIn(programs: string, program: string): string | undefined {
  const found = programs.split(" + ").find((each) => each.startsWith(`${program} `));
  return found?.slice(program.length + 1);
}

/** What cannot be asked of a cell's program on a machine without a GPU, and why; undefined where nothing is left out. */
export function notAsked(engine: Engine, offload: KvOffload, role: Role): string | undefined {
  if (!engine.spawns) return "nothing is started: somebody else runs it";
  return LIMITS[`${engine.kind}/${offload}/${role}`] ?? LIMITS[`${engine.kind}/${offload}`] ?? LIMITS[engine.kind];
}

const LIMITS: Readonly<Record<string, string>> = {
  "vllm/lmcache": 'mode "in_process" was not started: LMCache inside vLLM does not work on a CPU',
  "vllm/kvbm/decode": "opposite KVBM: its peer needs a GPU",
  "vllm/kvbm": "not started: KVBM's connector waits for its CUDA worker",
  sglang: "not started as it is: its CPU kernels are on no index",
};
