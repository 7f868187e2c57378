import type { Scenario } from "../live/runs.ts";
import { VLLM } from "../pins.ts";
import { runEqual } from "./equal.ts";
import { runKills } from "./kills.ts";

const CELLS = ["vllm/nixl/prefill/cpu", "vllm/nixl/decode/cpu"];

/** A prefill and a decode engine behind the router. */
export const DISAGG_RUNS: readonly Scenario[] = [
  {
    name: "vllm-disagg",
    about: "200 varied requests through the router to prefill and decode over NIXL: as one plain engine answers",
    pins: [VLLM],
    minutes: 6,
    cells: CELLS,
    run: runEqual,
  },
  {
    name: "vllm-disagg-kills",
    about: "the same pair, either engine killed 10 times at random moments while requests run",
    pins: [VLLM],
    minutes: 10,
    cells: CELLS,
    run: (places) => runKills(places, 10),
  },
];
