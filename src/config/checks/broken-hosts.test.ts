import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FindingCode } from "../../core/findings.ts";
import type { HostState, LaunchState, PackageState } from "../../process/host/host-state.ts";
import { GOOD_HOST, goodLaunch } from "../../process/testing/host-states.ts";
import { loadConfig } from "../load.ts";
import { formatProblem } from "../problems.ts";
import { SAMPLE_HOST } from "../sample-host.ts";
import { hostLaunches, hostProblems } from "./host-problems.ts";

const GIB = 1024 ** 3;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-hosts-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

interface Broken {
  readonly name: string;
  readonly toml: string | readonly string[];
  /** What is other than on a host that lacks nothing; of each launch. */
  readonly launch?: Partial<LaunchState> | ((good: LaunchState) => Partial<LaunchState>);
  readonly host?: Partial<HostState>;
  readonly env?: Readonly<Record<string, string>>;
  readonly code: FindingCode;
  readonly severity?: "error" | "warning";
  /** `line:column` of the key that is to blame; undefined: the host's own fault. */
  readonly place?: string;
  readonly says: RegExp;
  readonly remedy: RegExp;
  /** "none": there must be none. */
  readonly fix?: RegExp | "none";
}

const vllm = (more = "", model = ""): string => `[models.m]
path = "/models/m"
${model}
[engine]
kind = "vllm"
${more}
`;

const without =
  (name: string) =>
  (good: LaunchState): Partial<LaunchState> => ({
    packages: Object.fromEntries(Object.entries(good.packages ?? {}).filter(([each]) => each !== name)),
  });

const withVersions =
  (versions: Readonly<Record<string, PackageState>>) =>
  (good: LaunchState): Partial<LaunchState> => ({
    packages: { ...good.packages, ...versions },
  });

const BROKEN: readonly Broken[] = [
  {
    name: "an engine that is not installed",
    toml: vllm(),
    launch: { program: {} },
    code: "engine-missing",
    place: "5:8",
    says: /"vllm" is not in PATH/,
    remedy: /set its "binary" to the full path/,
    fix: /^pip install vllm$/,
  },
  {
    name: "a program without the right to run",
    toml: vllm('[engine.vllm]\nbinary = "/opt/vllm"'),
    launch: { program: { unrunnable: "/opt/vllm" } },
    code: "engine-missing",
    place: "7:10",
    says: /"\/opt\/vllm" cannot be run by this user/,
    remedy: /binary/,
    fix: /^chmod \+x \/opt\/vllm$/,
  },
  {
    name: "a script whose environment was moved",
    toml: vllm(),
    launch: { program: { path: "/venv/bin/vllm", pythonMissing: "/old/bin/python3" } },
    code: "engine-missing",
    says: /run by \/old\/bin\/python3, which is not there/,
    remedy: /Install the engine/,
    place: "5:8",
  },
  {
    name: "a Python without SGLang",
    toml: `${vllm().replace("vllm", "sglang")}[engine.sglang]\nbinary = "python3.12"`,
    launch: without("sglang"),
    code: "package-missing",
    place: "8:10",
    says: /sglang is not installed in \/venv\/bin\/python3, and this engine is run by it/,
    remedy: /set "binary" to the Python that has it/,
    fix: /^\/venv\/bin\/python3 -m pip install 'sglang>=0.5.10,<0.6'$/,
  },
  {
    name: "nixl that is missing",
    toml: vllm('kv_offload = "nixl"\nrole = "prefill"'),
    launch: without("nixl"),
    code: "package-missing",
    place: "6:14",
    says: /nixl is not installed.*kv_offload "nixl" with role "prefill" needs it/,
    remedy: /Install it there/,
    fix: /pip install 'nixl>=1\.3\.2'/,
  },
  {
    name: "LMCache that is missing",
    toml: vllm('kv_offload = "lmcache"'),
    launch: without("lmcache"),
    code: "package-missing",
    place: "6:14",
    says: /lmcache is not installed/,
    remedy: /Install it there/,
  },
  {
    name: "kvbm that is missing",
    toml: vllm('kv_offload = "kvbm"\n[engine.vllm.kvbm]\ncpu_cache_gib = 8'),
    launch: without("kvbm"),
    code: "package-missing",
    place: "6:14",
    says: /kvbm is not installed/,
    remedy: /Install it there/,
  },
  {
    name: "the LMCache server's program that is missing",
    toml: vllm('kv_offload = "lmcache"\n[engine.vllm.lmcache]\nmode = "mp"'),
    launch: { missingPrograms: ["lmcache"] },
    code: "engine-missing",
    place: "6:14",
    says: /"lmcache" is not there, and the launch starts it beside the engine/,
    remedy: /Install its package/,
    fix: /-m pip install lmcache$/,
  },
  {
    name: "an LMCache that is too old",
    toml: vllm('kv_offload = "lmcache"'),
    launch: withVersions({ lmcache: { version: "0.3.9" } }),
    code: "package-version",
    severity: "warning",
    place: "6:14",
    says: /lmcache 0\.3\.9 is installed, .* rendered for >=0\.5\.0/,
    remedy: /Install lmcache >=0\.5\.0/,
  },
  {
    name: "vLLM 0.26 with LMCache 0.5.2, which answers wrongly",
    toml: vllm('kv_offload = "lmcache"'),
    launch: withVersions({ vllm: { version: "0.26.0" }, lmcache: { version: "0.5.2" } }),
    code: "bad-versions",
    place: "6:14",
    says: /vllm 0\.26\.0 with lmcache 0\.5\.2 answers with wrong text/,
    remedy: /Use vLLM 0\.32 or newer/,
    fix: /pip install 'vllm>=0\.32'/,
  },
  {
    name: "no GPU",
    toml: vllm(),
    host: { gpuKind: "none", gpus: [] },
    code: "gpu-missing",
    place: "4:2",
    says: /vllm 0\.33\.0 computes on a GPU, and this host shows none/,
    remedy: /build for the CPU/,
  },
  {
    name: "a build for the CPU whose command is for a GPU",
    toml: vllm(),
    host: { gpuKind: "none", gpus: [] },
    launch: withVersions({ vllm: { version: "0.32.0+cpu" } }),
    code: "gpu-missing",
    severity: "warning",
    says: /computes on the CPU/,
    remedy: /\[agent\]\.platform = "cpu"/,
    place: "4:2",
  },
  {
    name: "a GPU that is not there",
    toml: vllm("gpus = [4, 5]", "tp = 2"),
    code: "gpu-index",
    // It pointed at the model's tp, where nothing is to be changed; and what only lists GPUs mends nothing.
    place: "6:8",
    says: /GPU 4, 5 is not on this host, which has 2 \(0, 1\)/,
    remedy: /Name GPUs that are there \(0, 1\)/,
    fix: "none",
  },
  {
    name: "more ranks than GPUs",
    toml: vllm("", "tp = 8"),
    code: "gpu-count",
    place: "3:6",
    says: /8 GPUs are needed .* this host has 2/,
    remedy: /Lower tp to at most 2/,
  },
  {
    name: "more ranks than the GPUs that Slurm gave",
    toml: vllm("", "tp = 2"),
    launch: { variables: { CUDA_VISIBLE_DEVICES: "1" } },
    code: "gpu-count",
    place: "3:6",
    says: /2 GPUs are needed .* CUDA_VISIBLE_DEVICES shows 1/,
    remedy: /Lower tp to at most 1/,
  },
  {
    name: "a model that is larger than its GPUs",
    toml: vllm(),
    launch: { model: { at: "/models/m", isFolder: true, hasConfig: true, weightBytes: 140 * GIB, broken: [] } },
    code: "gpu-memory",
    severity: "warning",
    place: "4:2",
    says: /the weights are 140 GiB, 140 GiB for each of 1 GPUs of which 72 GiB may be used/,
    remedy: /Set tp to at least 3/,
  },
  {
    name: "a GPU that somebody else fills",
    toml: vllm("gpus = [1]"),
    host: { gpus: GOOD_HOST.gpus.map((gpu) => ({ ...gpu, usedBytes: gpu.index === 1 ? 60 * GIB : 0 })) },
    code: "gpu-memory",
    severity: "warning",
    place: "6:8",
    says: /GPU 1 \(60 GiB of 80 GiB\), and this engine takes 90 %/,
    remedy: /End them, choose other GPUs/,
  },
  {
    name: "more LMCache than memory, a cache for each rank",
    toml: vllm('kv_offload = "lmcache"\n[engine.vllm.lmcache]\ncpu_gib = 300', "tp = 2"),
    code: "host-memory",
    place: "8:11",
    says: /600 GiB of memory are asked for and this host has 512 GiB: LMCache's CPU cache \(300 GiB × 2 ranks\)/,
    remedy: /Lower the sizes to 512 GiB in all/,
  },
  {
    name: "more HiCache than memory, per rank in decimal GB",
    toml: vllm('kv_offload = "hicache"\n[engine.sglang.hicache]\nsize_gib = 300', "tp = 2").replace(
      '"vllm"',
      '"sglang"',
    ),
    code: "host-memory",
    place: "8:12",
    says: /559 GiB of memory .* HiCache's host pool \(300 GB × 2 ranks\)/,
    remedy: /Lower the sizes/,
  },
  {
    name: "a cgroup that is smaller than the host",
    toml: vllm('kv_offload = "kvbm"\n[engine.vllm.kvbm]\ncpu_cache_gib = 64'),
    host: { cgroupBytes: 32 * GIB },
    code: "host-memory",
    place: "8:17",
    says: /64 GiB .* the cgroup \(container\) that cgn runs in may use 32 GiB: KVBM's CPU cache/,
    remedy: /Lower the sizes to 32 GiB/,
  },
  {
    name: "memory that others hold now",
    toml: vllm('kv_offload = "kvbm"\n[engine.vllm.kvbm]\ncpu_cache_gib = 64'),
    host: { availableBytes: 20 * GIB },
    code: "host-memory",
    severity: "warning",
    place: "8:17",
    says: /64 GiB of memory are asked for and 20 GiB are free now/,
    remedy: /end what holds the rest/,
  },
  {
    name: "Docker's /dev/shm of 64 MiB",
    toml: vllm("", "tp = 2"),
    host: { sharedMemoryBytes: 64 * 1024 ** 2 },
    code: "shared-memory",
    severity: "warning",
    says: /\/dev\/shm has 64 MiB/,
    remedy: /--shm-size or --ipc=host/,
  },
  {
    name: "8 MiB of locked memory with InfiniBand",
    toml: vllm('kv_offload = "nixl"'),
    host: { lockedMemoryBytes: 8 * 1024 ** 2 },
    code: "locked-memory",
    severity: "warning",
    says: /at most 8 MiB may be locked/,
    remedy: /LimitMEMLOCK=infinity/,
    // The hard limit is what is short: only root raises it.
    fix: /^sudo prlimit --pid \$\$ --memlock=unlimited/,
  },
  {
    name: "a port that another process has",
    toml: vllm('url = "http://127.0.0.1:8123"'),
    launch: { ports: [{ name: "http", port: 8123, holder: { pid: 4711, command: "nginx" } }] },
    code: "port-in-use",
    place: "6:7",
    says: /port 8123 \(http\) is in use by nginx \(pid 4711\)/,
    remedy: /End that process, or choose another port/,
    fix: /^kill 4711$/,
  },
  {
    name: "a side port that another user's process has",
    toml: vllm("", "[agent]\nside_port_base = 30000"),
    launch: { ports: [{ name: "kv-events", port: 30_000 }] },
    code: "port-in-use",
    place: "4:18",
    says: /port 30000 \(kv-events\) is in use by another process/,
    remedy: /choose another port/,
    fix: "none",
  },
  {
    name: "a model that is not there",
    toml: vllm(),
    launch: { model: {} },
    code: "model-missing",
    place: "2:8",
    says: /"\/models\/m" does not exist/,
    remedy: /Set path to the model's file or folder/,
  },
  {
    name: "a model that may not be read",
    toml: vllm(),
    launch: { model: { unreadable: "/models/m" } },
    code: "model-missing",
    place: "2:8",
    says: /cannot be read by this user/,
    remedy: /Give it the rights/,
    fix: /chmod -R a\+rX \/models\/m/,
  },
  {
    name: "a hub model with the hub off",
    toml: '[models.m]\nhf_repo = "org/m"\n[engine]\nkind = "vllm"\n',
    launch: { model: { hubOffline: true } },
    code: "model-missing",
    place: "2:11",
    says: /"org\/m" is not in the hub's cache.*HF_HUB_OFFLINE/,
    remedy: /Download it, or unset HF_HUB_OFFLINE/,
    fix: /hf download org\/m/,
  },
  {
    name: "a hub model that is not downloaded",
    toml: '[models.m]\nhf_repo = "org/m"\n[engine]\nkind = "vllm"\n',
    launch: { model: { hubOffline: false } },
    code: "model-not-downloaded",
    severity: "warning",
    place: "2:11",
    says: /the engine downloads it at its first start/,
    remedy: /raise \[agent\]\.ready_timeout/,
    fix: /hf download org\/m/,
  },
  {
    name: "weights that are Git LFS pointers",
    toml: vllm(),
    launch: {
      model: {
        at: "/models/m",
        isFolder: true,
        hasConfig: true,
        weightBytes: 0,
        broken: ["a.safetensors", "b.safetensors"],
      },
    },
    code: "model-incomplete",
    place: "2:8",
    says: /"a\.safetensors" and 1 more files of the model are no weights but a Git LFS pointer/,
    remedy: /Download the model again in full/,
  },
  {
    name: "a folder without config.json",
    toml: vllm(),
    launch: { model: { at: "/models/m", isFolder: true, hasConfig: false, weightBytes: 1, broken: [] } },
    code: "model-incomplete",
    place: "2:8",
    says: /has no config\.json/,
    remedy: /Name the folder that has it/,
  },
  {
    name: "a folder where llama.cpp wants a file",
    toml: '[models.m]\npath = "/models/m"\n[engine]\nkind = "llama_cpp"\n',
    launch: { model: { at: "/models/m", isFolder: true, weightBytes: 0, broken: [] } },
    code: "model-incomplete",
    place: "2:8",
    says: /is a folder, and this engine loads one GGUF file/,
    remedy: /Name the \.gguf file in it/,
  },
  {
    name: "a disk that is too small for KVBM",
    toml: vllm('kv_offload = "kvbm"\n[engine.vllm.kvbm]\ndisk_cache_gib = 500\ndisk_dir = "/ssd"'),
    launch: { disks: [{ dir: "/ssd/8000", freeBytes: 100 * GIB }] },
    code: "disk-space",
    place: "8:18",
    says: /KVBM's disk cache \(500 GiB\) has 100 GiB free in "\/ssd\/8000"/,
    remedy: /Lower its size/,
    fix: "none",
  },
  {
    name: "a disk folder that may not be written",
    toml: vllm('kv_offload = "kvbm"\n[engine.vllm.kvbm]\ndisk_cache_gib = 50\ndisk_dir = "/ssd"'),
    launch: {
      disks: [
        { dir: "/ssd/8000", freeBytes: 100 * GIB, problem: "/ssd cannot be written by this user", wantsRights: true },
      ],
    },
    code: "disk-unwritable",
    place: "8:18",
    says: /cannot be kept in "\/ssd\/8000": \/ssd cannot be written by this user/,
    remedy: /Give it the rights/,
    // `mkdir` below a folder that may not be written failed as well.
    fix: /^sudo install -d -o "\$\(id -un\)" \/ssd\/8000$/,
  },
  {
    name: "a disk folder below /proc",
    toml: vllm('kv_offload = "kvbm"\n[engine.vllm.kvbm]\ndisk_cache_gib = 50\ndisk_dir = "/proc/x"'),
    launch: { disks: [{ dir: "/proc/x", freeBytes: 0, problem: "/proc is of a file system that keeps no files" }] },
    code: "disk-unwritable",
    place: "8:18",
    says: /\/proc is of a file system that keeps no files/,
    remedy: /^Name another folder$/,
    fix: "none",
  },
  {
    // It got the advice to make README.md executable.
    name: "a binary that is no program",
    toml: vllm('[engine.vllm]\nbinary = "README.md"'),
    launch: { program: { unrunnable: "/x/README.md", looksRunnable: false } },
    code: "engine-missing",
    place: "7:10",
    says: /"\/x\/README\.md" is no program/,
    remedy: /Set "binary" to the engine's program/,
    fix: "none",
  },
  {
    // `pip install vllm` was printed, which brings no program of this name.
    name: "a binary that no package brings",
    toml: vllm('[engine.vllm]\nbinary = "/old/bin/vllm"'),
    launch: { program: {} },
    code: "engine-missing",
    place: "7:10",
    says: /"\/old\/bin\/vllm" is not there/,
    remedy: /set its "binary" to the full path of the program/,
    fix: "none",
  },
  {
    name: "a venv of uv without pip",
    toml: vllm('kv_offload = "nixl"'),
    launch: (good) => ({ packages: { vllm: good.packages!["vllm"]! }, installer: "uv" }),
    code: "package-missing",
    place: "6:14",
    says: /the Python package nixl is not installed/,
    remedy: /Install it there/,
    fix: /^uv pip install --python \S+ 'nixl/,
  },
  {
    name: "a venv with ensurepip only",
    toml: vllm('kv_offload = "nixl"'),
    launch: (good) => ({ packages: { vllm: good.packages!["vllm"]! }, installer: "ensurepip" }),
    code: "package-missing",
    place: "6:14",
    says: /the Python package nixl is not installed/,
    remedy: /Install it there/,
    fix: /^(\S+) -m ensurepip && \1 -m pip install 'nixl/,
  },
  {
    // Half a download passed for a model.
    name: "a model of which shards are missing",
    toml: vllm(),
    launch: {
      model: { at: "/models/m", isFolder: true, hasConfig: true, weightBytes: 1, broken: [], missing: ["b", "c"] },
    },
    code: "model-incomplete",
    place: "2:8",
    says: /names "b" and 1 more files that are not there/,
    remedy: /Download the model in full/,
  },
  {
    name: "a hub model of which the engine downloads the rest",
    toml: vllm(),
    launch: {
      model: { at: "/c/m", isFolder: true, hasConfig: true, weightBytes: 1, broken: [], missing: ["b"], inHub: true },
    },
    code: "model-incomplete",
    severity: "warning",
    place: "2:8",
    says: /names "b" that is not there/,
    remedy: /Download the model in full/,
  },
  {
    name: "LMCACHE_CONFIG_FILE that names nothing",
    toml: vllm('kv_offload = "lmcache"'),
    launch: { variables: { LMCACHE_CONFIG_FILE: "/no.yaml" }, missingFileVariables: ["LMCACHE_CONFIG_FILE"] },
    code: "file-missing",
    says: /LMCACHE_CONFIG_FILE names "\/no\.yaml", which does not exist/,
    remedy: /Correct or unset LMCACHE_CONFIG_FILE/,
    fix: /unset LMCACHE_CONFIG_FILE/,
  },
  {
    name: "an allocator that no connector stands",
    toml: vllm('kv_offload = "nixl"'),
    launch: { variables: { PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True" } },
    code: "variable-refused",
    says: /vLLM refuses a KV connector beside expandable_segments:True/,
    remedy: /Remove expandable_segments:True from PYTORCH_CUDA_ALLOC_CONF/,
    fix: /unset PYTORCH_CUDA_ALLOC_CONF/,
  },
  {
    name: "a peer address of another host",
    toml: `${vllm('kv_offload = "nixl"\nrole = "prefill"')}[agent]\npeer_address = "10.9.9.9"\n`,
    code: "peer-address",
    place: "9:16",
    says: /10\.9\.9\.9 is no address of this host/,
    remedy: /one of 10\.0\.0\.5/,
  },
  {
    name: "two files with one port",
    toml: [vllm(), vllm()],
    code: "port-in-use",
    says: /port 8000 \(http\) is also a port of node1 \(http\) in another file/,
    remedy: /Choose another port in one of the files/,
    place: "4:2",
  },
  {
    name: "two files with one GPU",
    toml: [vllm("gpu_index = 0"), vllm('gpu_index = 0\nurl = "http://127.0.0.1:8001"')],
    code: "gpu-shared",
    severity: "warning",
    place: "6:13",
    says: /GPU 0 is also given to node1 in another file/,
    remedy: /Give each engine GPUs of its own/,
  },
];

function look({ toml, launch, host = {}, env = {} }: Broken) {
  const texts = typeof toml === "string" ? [toml] : toml;
  const files = texts.map((text, n) => {
    const path = `${n}.toml`;
    writeFileSync(join(dir, path), text);
    return loadConfig({ path, cwd: dir, env, host: SAMPLE_HOST });
  });
  expect(files.flatMap(({ problems }) => problems.filter((p) => p.severity === "error"))).toEqual([]);
  const launches = hostLaunches(files);
  const states = launches.map(({ needs }): LaunchState => {
    const good = goodLaunch(needs);
    return { ...good, ...(typeof launch === "function" ? launch(good) : launch) };
  });
  return hostProblems(launches, states, { ...GOOD_HOST, ...host });
}

describe("hostProblems()", () => {
  it.each(BROKEN)("finds $code of $name, with its place and remedy", (broken) => {
    const found = look(broken);
    expect(
      found.map(({ code }) => code),
      found.map(formatProblem).join("\n"),
    ).toEqual([broken.code]);
    const [problem] = found;
    expect(problem?.severity).toBe(broken.severity ?? "error");
    expect(problem?.problem).toMatch(broken.says);
    expect(problem?.remedy).toMatch(broken.remedy);
    const place = problem?.line === undefined ? undefined : `${problem.line}:${problem.column}`;
    expect(place).toBe(broken.place);
    if (broken.fix === "none") expect(problem).not.toHaveProperty("fix");
    else if (broken.fix !== undefined) expect(problem?.fix).toMatch(broken.fix);
    // What only looks is no fix.
    expect(problem?.fix ?? "").not.toMatch(/^(nvidia-smi|free|df|ls|ss|#)\b/);
  });

  it.each(["none", "nixl", "lmcache", "kvbm"])("finds nothing on a good host for vLLM with %s", (offload) => {
    expect(look({ toml: vllm(`kv_offload = "${offload}"`) } as Broken)).toEqual([]);
  });

  it.each(["llama_cpp", "mlx", "sglang"])("finds nothing on a good host for %s", (kind) => {
    expect(look({ toml: vllm().replace("vllm", kind) } as Broken)).toEqual([]);
  });

  // Each start of a simulated engine told that its model is not downloaded, which it never is.
  it("looks for no model on the hub for a simulated engine", () => {
    const toml = vllm(`[engine.vllm]\nbinary = "${SAMPLE_HOST.launcherDir}/sim-vllm.mjs"`).replace(/path = .*/, "");
    const launch = (good: LaunchState) => ({ model: good.model === undefined ? undefined : {} });
    expect(look({ toml, launch } as unknown as Broken)).toEqual([]);
    expect(look({ toml: toml.replace("launchers", "others"), launch } as unknown as Broken)).toMatchObject([
      { code: "model-not-downloaded" },
    ]);
  });

  // Engines of one file with one fault had a line each.
  it("tells once what several engines of a file lack", () => {
    const toml =
      '[models.m]\nhf_repo = "a/b"\n[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:1"\n' +
      '[[engines]]\nkind = "vllm"\nurl = "http://127.0.0.1:2"\n';
    const found = look({ toml, launch: { model: {} } } as unknown as Broken);
    expect(found).toMatchObject([
      { code: "model-not-downloaded", problem: expect.stringMatching(/^\S+, \S+: "a\/b"/) },
    ]);
  });

  it("needs no GPU where a laptop runs llama.cpp", () => {
    const { gpus: _, ...none } = GOOD_HOST;
    const laptop = { ...none, gpuKind: "none", gpus: [], hasRdma: false, lockedMemoryBytes: 8 * 1024 ** 2 } as const;
    const toml = '[models.m]\npath = "/m.gguf"\n[engine]\nkind = "llama_cpp"\n';
    expect(look({ toml, host: laptop } as unknown as Broken)).toEqual([]);
  });
});
