import { ENGINES } from "../../src/engines/registry.ts";
import { launchShape, variantCells, variantPlan } from "../../src/engines/variant.ts";
import type { LiveAnswer } from "../answers.ts";
import { DISAGG_RUNS } from "../disagg/disagg-runs.ts";
import { PINS } from "../pins.ts";
import type { Places } from "../places.ts";
import { Progress } from "../progress.ts";
import { OTHER_RUNS } from "./other-runs.ts";
import { VLLM_RUNS } from "./vllm-runs.ts";

/** Something that `cgn agent` starts, is asked, and ends. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  /** Pins that it needs. */
  readonly pins: readonly string[];
  readonly minutes: number;
  /** The cells that it proves, as `kind/offload/role/variant`. */
  readonly cells: readonly string[];
  /** @returns what was seen. @throws Error with what went wrong */
  run(places: Places): Promise<string>;
}

export interface LiveRun extends Scenario {
  start(places: Places, on: string): Promise<LiveAnswer>;
}

/** All of them, the quick ones first. */
export const LIVE_RUNS: readonly LiveRun[] = [...OTHER_RUNS, ...VLLM_RUNS, ...DISAGG_RUNS].map((scenario) => ({
  ...scenario,
  start: (places, on) => startScenario(scenario, places, on),
}));

async function startScenario(scenario: Scenario, places: Places, on: string): Promise<LiveAnswer> {
  const bar = new Progress(`start ${scenario.name}`, 0);
  const started = Date.now();
  const { name, pins, cells } = scenario;
  const programs = pins.flatMap((pin) => PINS.filter((p) => p.name === pin)).map((p) => `${p.program} ${p.version}`);
  let ok = true;
  let said: string;
  try {
    said = await scenario.run(places);
  } catch (error) {
    ok = false;
    said = (error instanceof Error ? error.message : String(error)).slice(0, 3000);
  }
  bar.end(ok ? said : `failed: ${said}`);
  const seconds = Math.round((Date.now() - started) / 1000);
  return { name, programs, ok, said, seconds, cells, shapes: cells.map((cell) => shapeOf(cell, pins)), on };
}

/** The shape of a cell as it is rendered for the program that was started. */
function shapeOf(name: string, pins: readonly string[]): string {
  const cell = variantCells(ENGINES).find(
    ({ engine, offload, role, variant }) => [engine.kind, offload, role, variant.name].join("/") === name,
  );
  if (cell === undefined) throw new Error(`no cell ${name}`);
  const pin = PINS.find(({ name: own, program }) => pins.includes(own) && program === cell.variant.program);
  return launchShape(variantPlan(cell, pin?.version));
}
