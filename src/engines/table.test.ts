import { describe, expect, it } from "vitest";
import { ENGINE_KINDS, type EngineKind, ROLES } from "../core/engine-kind.ts";
import { KV_OFFLOADS, type KvOffload } from "../core/kv-offload.ts";
import { ENGINES, findEngine } from "./registry.ts";
import { acceptedOffloads, tableRows } from "./table.ts";

/** The contract: what each engine accepts in some role. */
const CONTRACT: Readonly<Record<EngineKind, readonly KvOffload[]>> = {
  vllm: ["none", "nixl", "lmcache", "kvbm"],
  sglang: ["none", "nixl", "hicache"],
  llama_cpp: ["none"],
  mlx: ["none"],
  openai_compat: ["none"],
};

describe("ENGINES", () => {
  it("ENGINES has one engine for each kind that a config may name", () => {
    expect(ENGINES.map((engine) => engine.kind)).toEqual([...ENGINE_KINDS]);
    for (const kind of ENGINE_KINDS) expect(findEngine(kind).kind).toBe(kind);
  });

  it("ENGINES have sections of their own", () => {
    const names = ENGINES.flatMap((engine) => [engine.section, ...engine.sectionAliases]);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe("tableRows()", () => {
  it("tableRows() has a row for each kind, offload and role", () => {
    const rows = tableRows();
    expect(rows).toHaveLength(ENGINE_KINDS.length * KV_OFFLOADS.length * ROLES.length);
    expect(new Set(rows.map((r) => `${r.engine}/${r.kvOffload}/${r.role}`)).size).toBe(rows.length);
  });

  it.each(ENGINE_KINDS)("acceptedOffloads() is the contract's row for %s", (kind) => {
    expect(acceptedOffloads(findEngine(kind))).toEqual(CONTRACT[kind]);
  });

  it("tableRows() refuses with a reason that is a sentence", () => {
    for (const row of tableRows()) if (!row.supported) expect(row.reason).toMatch(/^[A-Za-z].{20,}/);
  });

  it("tableRows() shows what a cell adds, and nothing for the plain launch", () => {
    const find = (engine: EngineKind, kvOffload: KvOffload, role: string) =>
      tableRows().find((r) => r.engine === engine && r.kvOffload === kvOffload && r.role === role);
    expect(find("vllm", "none", "both")).toMatchObject({ supported: true, args: [], env: {} });
    expect(find("vllm", "nixl", "prefill")).toMatchObject({
      args: ["--kv-transfer-config", expect.stringContaining('"kv_producer"')],
      env: { VLLM_NIXL_SIDE_CHANNEL_HOST: "10.0.0.5", VLLM_NIXL_SIDE_CHANNEL_PORT: "20052" },
    });
  });

  it("tableRows() is the same every time", () => {
    expect(JSON.stringify(tableRows())).toBe(JSON.stringify(tableRows()));
  });

  it("tableRows() tells a proof for every cell that spawns something", () => {
    for (const row of tableRows()) {
      if (row.supported && findEngine(row.engine).spawns) expect(row.verified, JSON.stringify(row)).not.toEqual([]);
    }
  });
});
