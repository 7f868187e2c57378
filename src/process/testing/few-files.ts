import { closeSync, openSync } from "node:fs";
import { fakePlan, freePort, openLab, until } from "./harness.ts";

// A process that supervises one fake engine and has no file descriptor left when the engine is killed. To be run with a low
// limit: `sh -c 'ulimit -n 64; exec node few-files.ts'`. It prints a line a step and ends with 0 when the engine is back.
const lab = await openLab();
const engine = lab.supervise(fakePlan(await freePort(), []), { healthEveryMs: 50, policy: { backoffMs: 200 } });
engine.start();
const { pid = 0 } = await engine.settled();
console.log("ready");
const taken: number[] = [];
const take = (): void => {
  try {
    while (taken.length < 10_000) taken.push(openSync("/dev/null", "r"));
  } catch {
    // All are taken.
  }
};
take();
// Looks that cannot be made say nothing about the engine.
await new Promise((resolve) => setTimeout(resolve, 1_000));
take();
console.log(`running ${engine.status().at}`);
process.kill(pid, "SIGKILL");
await until("a start failed", () => {
  take();
  return engine.status().reason.includes("file descriptors");
});
console.log(`short ${engine.status().at}: ${engine.status().reason}`);
for (const fd of taken) closeSync(fd);
await until("ready again", () => engine.status().at === "ready", 15_000);
console.log("ready again");
await lab.close();
