import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { documents } from "../conformance/documents.ts";
import { PINS } from "../conformance/pins.ts";
import { mergeResults, readResults } from "../conformance/results.ts";
import { failures } from "../conformance/summary.ts";
import { agrees, refusalOf, wrongQuestion } from "../conformance/wrong.ts";
import { WRONG } from "../conformance/wrong-launches.ts";
import type { Engine } from "../src/engines/engine.ts";
import { ENGINES, findEngine } from "../src/engines/registry.ts";
import { tableRows } from "../src/engines/table.ts";
import { launchShape, variantCells, variantPlan, variantShape } from "../src/engines/variant.ts";
import { verifiedBy } from "../src/engines/verified.ts";

const ROOT = join(import.meta.dirname, "..");
const AGAIN = "Run npm run conformance (-- --skip-live --only PROGRAM), or -- --documents after an edit of its texts";
const results = readResults();

describe("what real engines said", () => {
  it.each([...documents(results)])("%s is what the results make of it", (path, text) => {
    expect(readFileSync(join(ROOT, path), "utf8"), AGAIN).toBe(text);
  });

  it("every supported cell in every variant was taken, as it is rendered now, by a pinned version of its program", () => {
    const stale = variantCells(ENGINES).filter((cell) => {
      const { program } = cell.variant;
      const pins = PINS.filter((pin) => pin.program === program);
      const started = results.live.filter(({ ok }) => ok);
      const name = [cell.engine.kind, cell.offload, cell.role].join("/");
      const taken = pins.some(({ version }) => {
        const shape = variantShape(cell, version);
        const asked = results.cells.some(
          (a) =>
            a.ok &&
            a.program === program &&
            a.version === version &&
            [a.kind, a.offload, a.role].join("/") === name &&
            a.variant === cell.variant.name &&
            a.shape === shape,
        );
        // xllamacpp's launcher is ours: its parser proves nothing, a start does.
        return (
          asked ||
          (shape !== undefined && started.some(({ shapes }) => shapes.includes(shape))) ||
          program === "xllamacpp"
        );
      });
      return !taken;
    });
    const names = stale.map((c) => [c.engine.kind, c.offload, c.role, c.variant.name].join("/"));
    expect(names, AGAIN).toEqual([]);
  });

  it("no cell that spawns something shows as unverified", () => {
    const bare = tableRows().filter((r) => r.supported && findEngine(r.engine).spawns && r.verified.length === 0);
    expect(
      bare.map((r) => [r.engine, r.kvOffload, r.role].join("/")),
      AGAIN,
    ).toEqual([]);
  });

  it("a rendering that no program took shows as unverified", () => {
    const vllm = findEngine("vllm");
    const changed: Engine = {
      ...vllm,
      launch: (input) => ({ ...vllm.launch(input), argv: [...vllm.launch(input).argv, "--new-flag"] }),
    };
    expect(verifiedBy(vllm, "nixl", "prefill")).not.toEqual([]);
    expect(verifiedBy(changed, "nixl", "prefill")).toEqual([]);
  });

  it("all that was put to a program came out as it must", () => {
    expect(failures(results)).toBe(0);
  });
});

describe("wrong launches", () => {
  it("are at least 40 that cgn and the engine both refuse", () => {
    expect(results.wrong.filter((a) => a.code !== "" && a.refused).length).toBeGreaterThanOrEqual(40);
    expect(results.wrong.filter((a) => !agrees(a))).toEqual([]);
  });

  it.each(WRONG.map((wrong) => [`${wrong.program}: ${wrong.name}`, wrong] as const))(
    "are refused by cgn, and were put to the program: %s",
    (_, wrong) => {
      const recorded = results.wrong.find((a) => a.name === wrong.name && a.program === wrong.program);
      expect(recorded, AGAIN).toBeDefined();
      expect(refusalOf(wrong)?.code, AGAIN).toBe(recorded?.code);
      expect(wrongQuestion(wrong, recorded?.version ?? "").argv.length).toBeGreaterThan(2);
    },
  );
});

describe("launchShape()", () => {
  const cell = variantCells(ENGINES)[0]!;
  const plan = variantPlan(cell);

  it("stays the same when numbers change", () => {
    expect(launchShape({ ...plan, argv: plan.argv.map((word) => word.replace(/\d+/g, "7")) })).toBe(launchShape(plan));
  });

  it.each([
    ["a flag", { argv: [...plan.argv, "--x"] }],
    ["a variable", { env: { ...plan.env, X: "on" } }],
    [
      "a server beside it",
      { sidecars: [{ name: "s", argv: ["s"] as const, env: {}, ready: { tcpPort: 1, timeoutMs: 1 } }] },
    ],
  ])("changes with %s", (_, over) => {
    expect(launchShape({ ...plan, ...over })).not.toBe(launchShape(plan));
  });
});

describe("mergeResults()", () => {
  it("replaces what was asked again and keeps the rest", () => {
    const [one, two] = [
      { program: "a", version: "1", name: "x" },
      { program: "a", version: "2", name: "x" },
    ];
    const old = { cells: [], wrong: [one, two], live: [{ name: "l", ok: false }] } as never;
    const fresh = { cells: [], wrong: [{ ...two, name: "y" }], live: [{ name: "l", ok: true }] } as never;
    expect(mergeResults(old, fresh)).toEqual({
      cells: [],
      wrong: [one, { ...two, name: "y" }],
      live: [{ name: "l", ok: true }],
    });
  });
});
