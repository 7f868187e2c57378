#!/usr/bin/env node
// Stands in for the Python that runs SGLang: takes `-m sglang.launch_server …` and starts a simulated one.
import { runSim } from "./sim-engine.mjs";

await runSim("sglang", process.argv.slice(2));
