import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type CgnError, CODES } from "../../src/core/errors.ts";
import { fakePlan, freePort, type Lab, openLab, printedPid, runs, until } from "../../src/process/testing/harness.ts";

let lab: Lab;
let port: number;
beforeEach(async () => {
  lab = await openLab();
  port = await freePort();
});
afterEach(() => lab.close());

const ats = (seen: readonly { at: string }[]): string[] =>
  seen.map(({ at }) => at).filter((at, i, all) => at !== all[i - 1]);

describe("supervisePlan() with an engine that behaves", () => {
  it("starts it, sees it ready, stops it and leaves nothing", async () => {
    const engine = lab.supervise(fakePlan(port, ["--ready-after", "100", "--spawn-child"]));
    engine.start();
    const { at, epoch, pid } = await engine.settled();
    expect(at).toBe("ready");
    expect(epoch).toBeGreaterThan(1.7e9);
    expect(pid).toBe(printedPid(engine, "engine"));
    const child = printedPid(engine, "child");
    expect(runs(child)).toBe(true);
    await engine.stop();
    expect(ats(engine.seen)).toEqual(["starting", "ready", "stopping", "stopped"]);
    await until("child gone", () => !runs(child), 1_000);
    expect(readFileSync(engine.logFile, "utf8")).toContain(`child ${child}`);
  });

  it("shows its last line while it loads", async () => {
    const engine = lab.supervise(fakePlan(port, ["--ready-after", "700"]));
    engine.start();
    await engine.settled();
    const loading = engine.seen.find(({ at, lastLine }) => at === "starting" && lastLine !== "");
    expect(loading?.lastLine).toMatch(/^engine \d+$/);
    expect(loading?.load?.deadlineMs).toBeGreaterThan(loading?.load?.startedMs ?? 0);
  });

  it("writes the plan's files and reads secrets when it starts", async () => {
    const file = join(lab.dir, "deep", "engine.json");
    const plan = fakePlan(port, ["--print-env", "ENGINE_KEY"], {
      files: [{ path: file, mode: "0600", content: "{}" }],
      env: { ENGINE_KEY: { secretFrom: "MY_KEY" } },
    });
    const engine = lab.supervise(plan, { env: { ...process.env, MY_KEY: "s3cret" } });
    engine.start();
    await engine.settled();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(engine.tail(10)).toContain("ENGINE_KEY=s3cret");
  });
});

describe("supervisePlan() with an engine that does not", () => {
  it("starts it again after kill -9, with a higher epoch", async () => {
    const engine = lab.supervise(fakePlan(port, ["--spawn-child"]));
    engine.start();
    const first = await engine.settled();
    const child = printedPid(engine, "child");
    process.kill(first.pid ?? 0, "SIGKILL");
    await until("not ready", () => engine.status().at !== "ready");
    const second = await engine.settled();
    expect(second.at).toBe("ready");
    expect(second.epoch).toBeGreaterThan(first.epoch);
    expect(runs(child)).toBe(false);
    expect(ats(engine.seen)).toEqual(["starting", "ready", "backoff", "starting", "ready"]);
  });

  it("takes one that hangs out, back in when it goes on, and kills it when it does not", async () => {
    // Broke: an engine that was stopped (SIGSTOP) stayed ready for ever, and requests went on to it.
    const hasty = { healthEveryMs: 50, answerMs: 300, policy: { hungMs: 2_500 } };
    const engine = lab.supervise(fakePlan(port, ["--spawn-child"]), hasty);
    engine.start();
    const { pid = 0, epoch } = await engine.settled();
    const child = printedPid(engine, "child");
    process.kill(pid, "SIGSTOP");
    await until("out of routing", () => engine.status().at === "sick");
    expect(engine.status().reason).toMatch(/^hung: no answer to its health probe for \d+ s$/);
    process.kill(pid, "SIGCONT");
    await until("back", () => engine.status().at === "ready");
    expect(engine.status()).toMatchObject({ epoch, pid, starts: 1 });
    process.kill(pid, "SIGSTOP");
    await until("killed", () => engine.seen.some(({ reason }) => reason.startsWith("killed: hung: no answer")), 8_000);
    expect((await engine.settled()).at).toBe("ready");
    expect(engine.status().epoch).toBeGreaterThan(epoch);
    expect([runs(pid), runs(child)]).toEqual([false, false]);
  });

  it("gives up on one that exits at once, with its last lines and the attempts of a first start", async () => {
    const engine = lab.supervise(
      fakePlan(port, ["--never-ready", "--exit-after", "20", "--code", "3", "--say", "boom: no such thing"]),
    );
    engine.start();
    const { at, starts, error } = await engine.settled();
    expect([at, starts, error?.code]).toEqual(["failed", 3, "ENGINE_EXITED"]);
    expect(error?.details).toMatchObject({ exitCode: 3, tail: expect.stringContaining("boom: no such thing") });
    expect(error?.message).toContain("ended with code 3");
    // It said "attempt 3 of 6" and gave up after the third.
    expect(engine.seen.map(({ reason }) => reason)).toContain("loading, attempt 3 of 3");
  });

  it("does not try again what cannot succeed", async () => {
    const engine = lab.supervise(
      fakePlan(port, [
        "--never-ready",
        "--exit-after",
        "5",
        "--code",
        "1",
        "--say",
        "ModuleNotFoundError: No module named 'vllm'",
      ]),
    );
    engine.start();
    const { starts, error } = await engine.settled();
    expect([starts, error?.code]).toEqual([1, "ENGINE_NOT_FOUND"]);
    expect(error?.message).toContain('the Python module "vllm" is not installed');
  });

  it("kills one that is never ready", async () => {
    const engine = lab.supervise(
      fakePlan(port, ["--never-ready", "--spawn-child"], { ready: { path: "/health", timeoutMs: 600 } }),
    );
    engine.start();
    const { at, error, pid } = await engine.settled();
    expect([at, error?.code, pid]).toEqual(["failed", "ENGINE_NOT_READY", undefined]);
    expect(error?.message).toContain("not ready within 600ms");
    expect(runs(printedPid(engine, "engine"))).toBe(false);
    expect(runs(printedPid(engine, "child"))).toBe(false);
  });

  it("ends one at once that says that it failed to load", async () => {
    const engine = lab.supervise(fakePlan(port, ["--fail-load"]));
    engine.start();
    const { at, error } = await engine.settled();
    expect([at, error?.code]).toEqual(["failed", "ENGINE_NOT_READY"]);
    expect(error?.message).toContain("says that it failed to load");
  });

  it("kills one that ignores SIGTERM after its grace", async () => {
    const plan = fakePlan(port, ["--ignore-sigterm"], { stop: { graceMs: 300, drainsOnSigterm: true } });
    const engine = lab.supervise(plan);
    engine.start();
    const { pid = 0 } = await engine.settled();
    const before = performance.now();
    await engine.stop();
    expect(performance.now() - before).toBeGreaterThan(290);
    expect(runs(pid)).toBe(false);
    expect(engine.tail(5)).toContain("SIGTERM 1");
  });

  it("sends SIGTERM twice to one that needs it, after its requests have ended", async () => {
    const plan = fakePlan(port, ["--term-twice"], {
      stop: { graceMs: 5_000, secondTermMs: 100, drainsOnSigterm: false },
    });
    let drained = (): void => {};
    const engine = lab.supervise(plan, {
      drained: () => new Promise((resolve) => (drained = resolve)),
      drainGraceMs: 60_000,
    });
    engine.start();
    await engine.settled();
    const stopped = engine.stop();
    expect(engine.status().at).toBe("draining");
    expect(engine.tail(5)).not.toContain("SIGTERM 1");
    drained();
    await stopped;
    expect(engine.tail(5)).toContain("SIGTERM 2");
  });

  it("bounds the log of one that spams", async () => {
    const engine = lab.supervise(fakePlan(port, ["--spam-log"]), { logBounds: { fileBytes: 1_500_000, files: 2 } });
    engine.start();
    await until("rotated", () => existsSync(`${engine.logFile}.1`));
    await engine.stop();
    const bytes = statSync(engine.logFile).size + statSync(`${engine.logFile}.1`).size;
    expect(bytes).toBeLessThanOrEqual(3_000_000);
    // The last line may be cut where the process was killed.
    const last = engine.tail(1)[0] ?? "";
    expect(last).not.toBe("");
    expect("spam ".repeat(20)).toContain(last);
  });

  it("can be stopped at any moment of its start", async () => {
    for (const ms of [0, 5, 15, 40, 80]) {
      const engine = lab.supervise(fakePlan(await freePort(), ["--spawn-child", "--never-ready"]));
      engine.start();
      await new Promise((resolve) => setTimeout(resolve, ms));
      const { pid } = engine.status();
      await engine.stop();
      expect(engine.status().at).toBe("stopped");
      if (pid !== undefined) expect(runs(pid)).toBe(false);
    }
  });
});

describe("supervisePlan() before it starts anything", () => {
  const fail = async (over: Parameters<typeof fakePlan>[2]): Promise<CgnError | undefined> => {
    const engine = lab.supervise(fakePlan(port, [], over));
    engine.start();
    const { at, starts, error } = await engine.settled();
    expect([at, starts]).toEqual(["failed", 0]);
    return error;
  };

  it("names a command that is not there", async () => {
    const error = await fail({ argv: ["no-such-engine", "serve"] });
    expect(error?.code).toBe("ENGINE_NOT_FOUND");
    expect(error?.message).toContain('"no-such-engine" is not in PATH');
    expect(CODES[error?.code ?? "BUG"].exit).toBe(6);
  });

  it("names a port that is in use, and who holds it", async () => {
    const holder = createServer().listen(port, "127.0.0.1");
    const error = await fail({});
    holder.close();
    expect(error?.code).toBe("PORT_IN_USE");
    expect(error?.message).toContain(`port ${port} (http) is in use`);
    if (process.platform === "linux") expect(error?.message).toContain(`(pid ${process.pid})`);
  });

  it("names a model file that is not there", async () => {
    const error = await fail({ requires: [{ what: "file", name: "/no/such/model.gguf" }] });
    expect(error?.code).toBe("MODEL_NOT_FOUND");
    expect(error?.message).toContain('"/no/such/model.gguf" does not exist');
  });

  it("names a secret that is not set", async () => {
    const error = await fail({ env: { KEY: { secretFrom: "NOT_SET_ANYWHERE" } } });
    expect(error?.code).toBe("CONFIG_INVALID");
    expect(error?.message).toContain("NOT_SET_ANYWHERE");
  });
});

describe("supervisePlan() with sidecars", () => {
  const sidecar = (tcpPort: number, flags: readonly string[] = []) => {
    const [node = "", script = ""] = fakePlan(0, []).argv;
    return {
      name: "lmcache",
      argv: [node, script, "--port", String(tcpPort), ...flags] as [string, ...string[]],
      env: {},
      ready: { tcpPort, timeoutMs: 5_000 },
    };
  };

  it("starts them first, keeps them over a restart of the engine, and stops them last", async () => {
    const side = await freePort();
    const engine = lab.supervise(
      fakePlan(port, [], { sidecars: [sidecar(side)], ports: [{ name: "lmcache", port: side }] }),
    );
    engine.start();
    const { pid = 0 } = await engine.settled();
    const log = readFileSync(join(lab.dir, "log", "n-e0-lmcache.log"), "utf8");
    const sidePid = Number(/engine (\d+)/.exec(log)?.[1]);
    process.kill(pid, "SIGKILL");
    await until("not ready", () => engine.status().at !== "ready");
    expect((await engine.settled()).at).toBe("ready");
    expect(runs(sidePid)).toBe(true);
    await engine.stop();
    expect(runs(sidePid)).toBe(false);
  });

  it("tells why when one cannot start, and leaves nothing", async () => {
    const side = await freePort();
    // On a busy machine a connection may come before the exit does, so it never listens.
    const flags = ["--listen-after", "60000", "--exit-after", "5", "--code", "2", "--say", "cannot serve cache"];
    const engine = lab.supervise(fakePlan(port, [], { sidecars: [sidecar(side, flags)] }));
    engine.start();
    const { at, error } = await engine.settled();
    expect(at).toBe("failed");
    expect(error?.message).toContain("n/e0/lmcache");
    expect(error?.details).toMatchObject({ tail: expect.stringContaining("cannot serve cache") });
  });
});
