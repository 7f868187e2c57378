import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findEngine } from "../engines/registry.ts";
import { freePort } from "../process/testing/harness.ts";
import type { Dashboard } from "../web/page/data.ts";
import type { CliContext, Values } from "./command.ts";
import { type Diagnosis, diagnosisText, exitOf } from "./doctor/diagnosis.ts";
import { hostFindings } from "./doctor/host-findings.ts";
import { engineFindings } from "./doctor/look-at-host.ts";
import { openFilesIn, processFindings } from "./doctor/look-at-process.ts";
import { routerFindings } from "./doctor/look-at-router.ts";
import { isCgn, portFindings } from "./doctor/port-findings.ts";
import { doctorCommand } from "./doctor.ts";

const GIB = 1024 ** 3;
const WELL = { node: "24.1.0", leastNode: "22.18", wallMs: Date.UTC(2026, 10, 30), clockKept: true };
const HOST = {
  gpuKind: "none",
  gpus: [],
  memoryBytes: 64 * GIB,
  availableBytes: 60 * GIB,
  sharedMemoryBytes: 32 * GIB,
  hasRdma: false,
  addresses: [],
} as const;

/** Codes of what is worse than a note. */
const codes = (found: readonly Diagnosis[]): (string | undefined)[] =>
  found.filter(({ level }) => level === "warning" || level === "error").map(({ code }) => code);

describe("processFindings()", () => {
  it.each([
    ["nothing for a process that is well", WELL, []],
    ["an old Node", { ...WELL, node: "22.9.0" }, [undefined]],
    ["no ZeroMQ", { ...WELL, zeromq: "Cannot use KV events" }, ["zeromq-missing"]],
    ["few open files", { ...WELL, openFiles: 1024 }, ["open-files"]],
    ["a clock of another century", { ...WELL, wallMs: 0 }, ["clock-wrong"]],
  ])("finds %s", (_, facts, expected) => {
    expect(codes(processFindings(facts))).toEqual(expected);
  });

  it("reads the hard limit on open files", () => {
    const limits = (hard: string) =>
      `Max processes             10 20 processes\nMax open files            1024 ${hard} files\n`;
    expect(["4096", "unlimited"].map((hard) => openFilesIn(limits(hard)))).toEqual([4096, Number.POSITIVE_INFINITY]);
    expect(openFilesIn("")).toBeUndefined();
  });
});

describe("hostFindings()", () => {
  const noTool = { hasTool: false };
  const gpu = { index: 0, name: "H100", totalBytes: 80 * GIB, usedBytes: 0 };

  it.each([
    ["nothing on a good host", HOST, noTool, []],
    ["little memory", { ...HOST, availableBytes: GIB }, noTool, ["memory-low"]],
    [
      "small /dev/shm beside a GPU",
      { ...HOST, gpuKind: "nvidia", gpus: [gpu], sharedMemoryBytes: 64 * 2 ** 20 },
      noTool,
      ["shared-memory"],
    ],
    [
      "a memory lock limit with RDMA",
      { ...HOST, hasRdma: true, lockedMemoryBytes: 8 * GIB },
      noTool,
      ["locked-memory"],
    ],
    ["a driver that does not answer", HOST, { hasTool: true, problem: "couldn't communicate" }, ["gpu-missing"]],
  ] as const)("finds %s", (_, host, driver, expected) => {
    expect(codes(hostFindings(host, driver, []))).toEqual(expected);
  });

  it("finds folders that cannot be written or are nearly full", () => {
    const folders = [
      { what: "logs", dir: "/a", canWrite: false },
      { what: "state", dir: "/b", canWrite: true, freeBytes: GIB },
      { what: "models", dir: "/c", canWrite: true, freeBytes: 100 * GIB },
    ];
    expect(codes(hostFindings(HOST, noTool, folders))).toEqual(["disk-unwritable", "disk-space"]);
  });
});

describe("engineFindings()", () => {
  const VLLM = { engine: findEngine("vllm"), options: {}, program: "/vllm", offloads: ["none", "lmcache"] } as const;

  it("tells versions that cgn does not know, and offloads that would work", () => {
    expect(codes(engineFindings([{ ...VLLM, version: "0.1.0" }]))).toEqual(["engine-version"]);
    const [known] = engineFindings([{ ...VLLM, version: "0.32.0" }]);
    expect(known).toMatchObject({ level: "good", what: "vllm 0.32.0 (/vllm); kv_offload lmcache would work" });
    expect(engineFindings([])[0]?.mend).toContain("pip install");
  });

  it("does not say that none is installed where a Python did not answer", () => {
    const found = engineFindings([], ["/venv/bin/python3"]);
    expect(codes(found)).toEqual(["packages-unknown"]);
    expect(found).toHaveLength(1);
    expect(engineFindings([VLLM], ["/venv/bin/python3"])).toHaveLength(2);
  });
});

describe("portFindings()", () => {
  it("tells who is in the way, and knows another cgn", () => {
    const at = (command: string) => [
      { port: 1, what: "the endpoint", key: "router.listen_http", taken: { holder: { pid: 7, command } } },
    ];
    expect(portFindings(at("nginx"))[0]).toMatchObject({ level: "warning", fix: "kill 7", code: "port-in-use" });
    expect(portFindings(at("node cgn.js"))[0]).toMatchObject({ level: "good" });
    const names = ["node cgn.ts", "cgn", "node cgn-router.js", "node mycgn.js", "cgnx"];
    expect(names.map((command) => isCgn({ pid: 1, command }))).toEqual([true, true, true, false, false]);
  });
});

const DASHBOARD = {
  now: 0,
  status: {
    node: "here",
    draining: false,
    policy: "cost",
    models: [{ model: "m", workers: 1, ready: 1, running: 0, queued: 0, waitingForLoad: 0 }],
    workers: [],
    sources: [
      {
        worker: "e",
        model: "m",
        type: "events",
        state: "live",
        detail: "",
        alarms: [{ code: "TOKENIZER_MISMATCH", message: "name the tokenizer", forMs: 60_000 }],
      },
    ],
  },
  engines: {},
} as unknown as Dashboard;

describe("routerFindings()", () => {
  it("tells alarms of a router that runs by their codes", () => {
    const found = routerFindings(DASHBOARD, "http://a");
    expect(found[0]).toMatchObject({ level: "good", what: "here at http://a: 1 of 1 models ready on 0 engines" });
    expect(found[1]).toMatchObject({ level: "warning", code: "TOKENIZER_MISMATCH" });
  });
});

describe("routerFindings() with indexes elsewhere", () => {
  it("tells a kvcached that cannot be reached", () => {
    const sources = {
      sources: [],
      mirrors: [
        { kvcached: "a:7071", state: "lost", reason: "refused" },
        { kvcached: "b:7071", state: "live" },
      ],
    };
    const status = { ...DASHBOARD.status, sources } as never;
    expect(codes(routerFindings({ ...DASHBOARD, status }, "http://a"))).toEqual(["kvcached-lost"]);
  });
});

describe("diagnosisText() and exitOf()", () => {
  const found: Diagnosis[] = [
    { area: "a", level: "note", what: "n" },
    { area: "b", level: "warning", what: "w", why: "because", mend: "do", fix: "cmd" },
    { area: "a", level: "error", what: "e\u001b[2J" },
  ];
  it("print by area, the worst first, and nothing that a terminal would obey", () => {
    expect(diagnosisText(found).split("\n")).toEqual([
      "a",
      "  BAD   e [2J",
      "  note  n",
      "",
      "b",
      "  WARN  w",
      "        because",
      "        → do",
      "          cmd",
    ]);
    expect([exitOf(found, false), exitOf(found.slice(0, 2), false), exitOf(found.slice(0, 2), true)]).toEqual([
      1, 0, 1,
    ]);
  });
});

describe("cgn doctor", () => {
  let dir: string;
  let admin: Server;
  let url: string;
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "cgn-doctor-"));
    mkdirSync(join(dir, "bin"));
    writeFileSync(join(dir, "bin", "llama-server"), "#!/bin/sh\n");
    chmodSync(join(dir, "bin", "llama-server"), 0o755);
    admin = createServer((_, res) => res.end(JSON.stringify(DASHBOARD)));
    const port = await freePort();
    await new Promise<void>((resolve) => admin.listen(port, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${port}`;
  });
  afterEach(() => {
    admin.close();
    rmSync(dir, { recursive: true });
  });

  async function doctor(options: Values) {
    const out: string[] = [];
    const cli: CliContext = {
      out: (text) => void out.push(text),
      err: () => undefined,
      env: { PATH: join(dir, "bin"), HOME: dir, XDG_CACHE_HOME: dir },
      cwd: dir,
      color: false,
      signal: new AbortController().signal,
      clock: { now: () => 0, wall: () => WELL.wallMs, after: () => () => {} },
    };
    const exit = await doctorCommand.run({ options: { json: true, ...options }, positionals: [] }, cli);
    const { found } = JSON.parse(out.join("\n")) as { readonly found: readonly Diagnosis[] };
    return { exit, found };
  }

  it("reads the file, this host for it, the engines and a router that runs", async () => {
    writeFileSync(
      join(dir, "cgn.toml"),
      '[models.m]\npath = "/nowhere/m.gguf"\n[engine]\nkind = "llama_cpp"\nnonsense = 1\n',
    );
    const { exit, found } = await doctor({ admin: url });
    const said = (text: string) => found.find(({ what }) => what.includes(text))?.level;
    expect(exit).toBe(1);
    expect(said("engine.nonsense")).toBe("warning");
    expect(found.find(({ code }) => code === "model-missing")?.level).toBe("error");
    expect(found.find(({ code }) => code === "TOKENIZER_MISMATCH")?.level).toBe("warning");
    expect(said(join(dir, "bin", "llama-server"))).toBe("good");
  });

  it("says what is wrong with a file that cannot be read at all, and how to get one", async () => {
    writeFileSync(join(dir, "cgn.toml"), "[models\n");
    const broken = await doctor({ admin: url });
    expect(broken.exit).toBe(1);
    expect(broken.found.some(({ area, level }) => area === "configuration" && level === "error")).toBe(true);
    rmSync(join(dir, "cgn.toml"));
    const none = await doctor({ admin: url });
    expect(none.found.find(({ area }) => area === "configuration")).toMatchObject({ level: "note", fix: "cgn init" });
  });
});
