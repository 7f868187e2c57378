import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, it } from "vitest";
import { processStartTime, writePidFile } from "../../src/process/pid-file.ts";
import { runs } from "../../src/process/testing/harness.ts";
import { freePorts, runCgn, scratch } from "../helpers/cgn-process.ts";

it("cgn check --host names engines that are kept and not in the file; cgn agent --end-kept ends them", async () => {
  // Kept engines that no file named ran on unseen: their port was "in use by node", and nothing said how to end them.
  const place = scratch();
  const [port = 0] = await freePorts(1);
  const listens = `require("http").createServer().listen(${port}, "127.0.0.1", () => console.log("listens"))`;
  const child = spawn(process.execPath, ["-e", listens], { detached: true, stdio: ["ignore", "pipe", "ignore"] });
  const pid = child.pid!;
  try {
    await once(child.stdout!, "data");
    writePidFile(join(place.dir, "n-old.pid.json"), {
      pid,
      startTime: processStartTime(pid)!,
      fingerprint: "other",
      epoch: 1,
      as: {
        node: "n",
        name: "n/old",
        kind: "openai_compat",
        url: `http://127.0.0.1:${port}`,
        gpus: [2],
        drainMs: 0,
        graceMs: 2_000,
      },
    });
    const file = place.file(
      "cgn.toml",
      `[agent]\nnode_id = "n"\nstate_dir = ${JSON.stringify(place.dir)}\nplatform = "cpu"\n[engine]\nkind = "llama_cpp"\nport = ${port}\n[engine.llama_cpp]\nbinary = "/bin/true"\n[models.m]\npath = "/bin/true"\n`,
    );
    const found = await runCgn(["check", "--host", "--format", "json", "--config", file], {}, place.dir);
    expect(found.err).toBe("");
    const { problems } = JSON.parse(found.out) as { problems: { code?: string; problem: string; remedy?: string }[] };
    const kept = problems.filter(({ code }) => code === "engine-kept");
    expect(kept.map(({ problem }) => problem)).toEqual([
      `n/old (pid ${pid}, http://127.0.0.1:${port}, GPU 2) runs on from an earlier agent, and this file does not have it as it runs`,
    ]);
    expect(kept[0]?.remedy).toContain("cgn agent --end-kept");
    // It ends before anything is started: its port is free then.
    expect(problems.filter(({ code }) => code === "port-in-use")).toEqual([]);

    const ended = await runCgn(["agent", "--end-kept", "--config", file], {}, place.dir);
    expect([ended.code, ended.out.trim()]).toEqual([0, `ended n/old (pid ${pid}, http://127.0.0.1:${port}, GPU 2)`]);
    expect(runs(pid)).toBe(false);
    const again = await runCgn(["agent", "--end-kept", "--config", file], {}, place.dir);
    expect([again.code, again.out.trim()]).toEqual([0, `no engine of node n is kept in ${place.dir}`]);
  } finally {
    if (runs(pid)) child.kill("SIGKILL");
    place.dispose();
  }
}, 120_000);
