import { fakePlan, freePort, openLab } from "./harness.ts";

// A process that supervises one fake engine with a child and a sidecar, until it is killed: `node mini-agent.ts MARK`.
// It prints "launching" before it starts anything and "ready" once the engine is.
const mark = process.argv[2] ?? "";
const lab = await openLab();
const side = await freePort();
const [node = "", script = ""] = fakePlan(0, []).argv;
const engine = lab.supervise(
  fakePlan(await freePort(), ["--spawn-child", "--ignore-sigterm", "--mark", mark], {
    sidecars: [
      {
        name: "side",
        argv: [node, script, "--port", String(side), "--mark", mark],
        env: {},
        ready: { tcpPort: side, timeoutMs: 5_000 },
      },
    ],
  }),
);
console.log("launching");
engine.start();
await engine.settled();
console.log("ready");
