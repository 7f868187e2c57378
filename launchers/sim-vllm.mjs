#!/usr/bin/env node
// Stands in for the `vllm` program: set [engine.vllm].binary to this file, and the agent starts a simulated vLLM.
import { runSim } from "./sim-engine.mjs";

await runSim("vllm", process.argv.slice(2));
