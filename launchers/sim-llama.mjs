#!/usr/bin/env node
// Stands in for `llama-server`: set [engine.llama_cpp].binary to this file, and the agent starts a simulated one.
import { runSim } from "./sim-engine.mjs";

await runSim("llama_cpp", process.argv.slice(2));
