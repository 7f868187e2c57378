import type { WorkerInfo } from "../core/worker.ts";
import type { Residency } from "./swap-plan.ts";

/** What routers are told of an engine that is loaded on demand, from its process and from its residency. */
export function swapWorker(
  process: WorkerInfo,
  { phase, why = "" }: Pick<Residency, "phase" | "why">,
  epoch: number,
  note: string,
): WorkerInfo {
  const worker: WorkerInfo = { ...process, epoch, onDemand: true };
  switch (phase) {
    case "unloaded":
      return { ...worker, state: "unloaded", reason: note === "" ? "loads with a request" : note };
    case "asleep":
      return { ...worker, state: "asleep", reason: note === "" ? "wakes with a request" : note };
    case "loading":
      // Ready as a process, and not awake yet. Whoever follows its events goes on with them.
      if (process.state !== "ready" && process.state !== "draining") return worker;
      return { ...worker, state: "asleep", reason: "wakes" };
    case "leaving":
    case "unloading":
      return process.state === "down" ? worker : { ...worker, state: "draining", reason: why };
    case "loaded":
      return worker;
    case "failed": {
      const { onDemand: _no, ...failed } = worker;
      return failed;
    }
  }
}
