import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../load.ts";
import { SAMPLE_HOST } from "../sample-host.ts";
import { adoptedHere, seedProblems } from "./adopted-seeds.ts";
import { pairProblems } from "./pair-problems.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-pairs-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

interface Side {
  readonly kind?: string;
  readonly offload?: string;
  readonly path?: string;
  readonly model?: string;
  readonly block?: number;
  readonly agent?: string;
  readonly more?: string;
  readonly cluster?: string;
  readonly version?: string;
}

function file(role: string, side: Side): string {
  return `[models.m]
path = "${side.path ?? "/models/m"}"
${side.model ?? ""}
[kv]
block_size_tokens = ${side.block ?? 16}
[cluster]
${side.cluster ?? ""}
[agent]
node_id = "${role}-host"
peer_address = "${role === "prefill" ? "10.0.0.5" : "10.0.0.6"}"
${side.agent ?? ""}
[engine]
kind = "${side.kind ?? "vllm"}"
role = "${role}"
kv_offload = "${side.offload ?? "nixl"}"
${side.more ?? ""}
`;
}

function problems(prefill: Side | undefined, decode: Side | undefined) {
  const sides = [["prefill", prefill] as const, ["decode", decode] as const];
  const files = sides.flatMap(([role, side]) => {
    if (side === undefined) return [];
    const text = file(role, side).replace(/peer_address = .*\n(?=[^[]*peer_address)/, "");
    writeFileSync(join(dir, `${role}.toml`), text);
    const { version } = side;
    return [
      loadConfig({
        path: `${role}.toml`,
        cwd: dir,
        env: {},
        host: SAMPLE_HOST,
        ...(version === undefined ? {} : { engineVersion: () => version }),
      }),
    ];
  });
  expect(files.flatMap((each) => each.problems.filter((p) => p.severity === "error"))).toEqual([]);
  return pairProblems(files);
}

const CASES: readonly {
  readonly name: string;
  readonly prefill?: Side;
  readonly decode?: Side;
  readonly found: readonly [code: string, severity: "error" | "warning", place: string, says: RegExp];
  readonly remedy: RegExp;
}[] = [
  {
    name: "smaller blocks on decode",
    prefill: { block: 32 },
    found: ["pair-block-size", "error", "decode.toml:5:21", /is 32 on the prefill engine prefill-host and 16 here/],
    remedy: /Write the same \[kv\]\.block_size_tokens/,
  },
  {
    name: "larger blocks on decode, which some models stand",
    decode: { block: 32 },
    found: ["pair-block-size", "warning", "decode.toml:5:21", /without sliding windows or states only/],
    remedy: /Write the same/,
  },
  {
    name: "page sizes of SGLang",
    prefill: { kind: "sglang", block: 16 },
    decode: { kind: "sglang", block: 64, more: "prefill_bootstrap_port = 20016" },
    found: ["pair-block-size", "error", "decode.toml:5:21", /is 16 on the prefill engine prefill-host and 64 here/],
    remedy: /Write the same/,
  },
  {
    name: "another tp with vLLM, which NIXL takes",
    decode: { model: "tp = 2" },
    found: ["pair-tp", "warning", "decode.toml:3:6", /tp is 1 on the prefill engine prefill-host and 2 here/],
    remedy: /Write the same tp/,
  },
  {
    name: "another tp with SGLang",
    prefill: { kind: "sglang" },
    decode: { kind: "sglang", model: "tp = 2", more: "prefill_bootstrap_port = 20016" },
    found: ["pair-tp", "error", "decode.toml:3:6", /it fails at the first request/],
    remedy: /Write the same tp/,
  },
  {
    name: "another path of the same model",
    decode: { path: "/data/m" },
    found: ["pair-model", "error", "decode.toml:2:8", /"\/models\/m" on the prefill engine .* and "\/data\/m" here/],
    remedy: /same path or hf_repo/,
  },
  {
    name: "another dtype",
    prefill: { model: 'dtype = "bfloat16"' },
    decode: { model: 'dtype = "float16"' },
    found: ["pair-model", "error", "decode.toml:3:9", /dtype is bfloat16 .* and float16 here/],
    remedy: /same dtype/,
  },
  {
    name: "vLLM and SGLang",
    decode: { kind: "sglang", more: "prefill_bootstrap_port = 20016" },
    found: ["pair-engine", "error", "decode.toml:13:8", /the kind is vllm .* and sglang here/],
    remedy: /Use one kind/,
  },
  {
    name: "KVBM's prefill with a decode that keeps the hybrid manager",
    prefill: { offload: "kvbm" },
    found: [
      "pair-engine",
      "error",
      "decode.toml:15:14",
      /hybrid KV cache manager off .* and NIXL, hybrid KV cache manager on here/,
    ],
    remedy: /same kv_offload/,
  },
  {
    name: "SGLang by mooncake and by NIXL",
    prefill: { kind: "sglang", offload: "none" },
    decode: { kind: "sglang", more: "prefill_bootstrap_port = 20016" },
    found: ["pair-engine", "error", "decode.toml:15:14", /the hand-over is mooncake .* and nixl here/],
    remedy: /same kv_offload/,
  },
  {
    name: "two versions of vLLM, which NIXL's handshake compares",
    prefill: { version: "0.32.0" },
    decode: { version: "0.33.0" },
    found: ["pair-version", "error", "decode.toml:12:2", /the version is 0\.32\.0 .* and 0\.33\.0 here/],
    remedy: /Install the same version/,
  },
  {
    name: "another hash seed, by an old command template",
    decode: { agent: 'vllm_cmd = "env PYTHONHASHSEED=7 vllm serve {model}"' },
    found: ["hash-seed", "error", "decode.toml:11:12", /PYTHONHASHSEED is 0 .* and 7 here/],
    remedy: /PYTHONHASHSEED=0/,
  },
  {
    name: "a loopback address, told to another host",
    prefill: { agent: 'peer_address = "127.0.0.1"' },
    found: [
      "peer-address",
      "error",
      "prefill.toml:10:16",
      /told to dial 127\.0\.0\.1, which is their own host, and decode-host is at 10\.0\.0\.6/,
    ],
    remedy: /\[agent\]\.peer_address/,
  },
];

describe("pairProblems()", () => {
  it("names the file of an engine whose node has the same name in both", () => {
    // Two files that name no node have this machine's name twice: "the prefill engine vm" was either.
    const at = (role: string, port: number, tp: number): string =>
      `[models.m]\npath = "/models/m"\ntp = ${tp}\n[agent]\nnode_id = "vm"\npeer_address = "10.0.0.5"\n[engine]\nrole = "${role}"\nport = ${port}\nkv_offload = "nixl"\n`;
    writeFileSync(join(dir, "p.toml"), at("prefill", 8001, 1));
    writeFileSync(join(dir, "d.toml"), at("decode", 8002, 2));
    const files = ["p.toml", "d.toml"].map((path) => loadConfig({ path, cwd: dir, env: {}, host: SAMPLE_HOST }));
    const said = pairProblems(files).map(({ problem }) => problem);
    expect(said.some((each) => each.includes("tp is 1 on the prefill engine vm of p.toml and 2 here"))).toBe(true);
  });

  it.each(CASES)("finds $found.0 of $name", ({ prefill = {}, decode = {}, found, remedy }) => {
    const [code, severity, place, says] = found;
    const said = problems(prefill, decode);
    expect(said.map((each) => each.code)).toEqual([code]);
    const [problem] = said;
    expect([problem?.severity, `${problem?.file}:${problem?.line}:${problem?.column}`]).toEqual([severity, place]);
    expect(problem?.problem).toMatch(says);
    expect(problem?.remedy).toMatch(remedy);
  });

  it("finds nothing in two files that agree", () => {
    expect(problems({}, {})).toEqual([]);
  });

  it("misses the other part only where several files are named", () => {
    expect(problems({}, undefined)).toEqual([]);
    writeFileSync(join(dir, "both.toml"), '[models.other]\npath = "/o"\n[engine]\nkind = "vllm"\nport = 8009\n');
    const both = loadConfig({ path: "both.toml", cwd: dir, env: {}, host: SAMPLE_HOST });
    writeFileSync(join(dir, "prefill.toml"), file("prefill", {}));
    const prefill = loadConfig({ path: "prefill.toml", cwd: dir, env: {}, host: SAMPLE_HOST });
    expect(pairProblems([prefill, both]).map(({ code, line }) => [code, line])).toEqual([["pair-engine", 14]]);
  });

  it("warns of a loopback address alone, and refuses it in a cluster that spans hosts", () => {
    const loopback = 'peer_address = "127.0.0.1"';
    expect(problems({ agent: loopback }, undefined).map(({ severity }) => severity)).toEqual(["warning"]);
    const etcd = 'state_backend = "etcd"\netcd_endpoints = ["http://10.0.0.9:2379"]';
    expect(problems({ agent: loopback, cluster: etcd }, undefined).map(({ severity }) => severity)).toEqual(["error"]);
  });
});

describe("seedProblems()", () => {
  it("finds an adopted engine of this host that was started with another hash seed", () => {
    const adopted = 'url = "http://127.0.0.1:8009"\nspawn = false\nmodel = "m"';
    writeFileSync(join(dir, "prefill.toml"), file("prefill", {}));
    writeFileSync(join(dir, "decode.toml"), file("decode", { more: adopted }));
    const files = ["prefill.toml", "decode.toml"].map((path) =>
      loadConfig({ path, cwd: dir, env: {}, host: SAMPLE_HOST }),
    );
    const here = adoptedHere(files, []);
    expect(here.map(({ port }) => port)).toEqual([8009]);
    const said = (seed: string | undefined) => seedProblems(files, here, [seed]).map(({ code, line }) => [code, line]);
    expect([said("unset"), said("7")]).toEqual([[["hash-seed", 16]], [["hash-seed", 16]]]);
    expect([said("0"), said(undefined)]).toEqual([[], []]);
  });
});
