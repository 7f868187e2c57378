import { expect, it } from "vitest";
import { ROLES } from "../core/engine-kind.ts";
import { isCgnError } from "../core/errors.ts";
import { KV_OFFLOADS } from "../core/kv-offload.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import { parseUserArgs } from "./args.ts";
import { type Engine, type LaunchInput, type ModelSpec, SIDE_PORTS } from "./engine.ts";
import { SAMPLE_MODEL, SAMPLE_SLOT, sampleInput } from "./sample-input.ts";

export { SAMPLE_MODEL, SAMPLE_SLOT, sampleInput };

interface Subject<O> {
  readonly engine: Engine<O>;
  readonly options: O;
  launch(over?: Partial<LaunchInput<O>>): LaunchPlan;
  /** The plans of all supported cells. */
  all(): LaunchPlan[];
}

const withExtra = (...extraArgs: string[]): { model: ModelSpec } => ({ model: { ...SAMPLE_MODEL, extraArgs } });

const CASES = {
  "is deterministic": (s) => expect(JSON.stringify(s.all())).toBe(JSON.stringify(s.all())),
  "binds the slot's host and port": (s) => {
    const { argv } = s.launch({ slot: { ...SAMPLE_SLOT, host: "127.0.0.9", port: 8765 } });
    expect(argv).toContain("127.0.0.9");
    expect(argv).toContain("8765");
  },
  "tells its URL": (s) => expect(s.launch().url).toBe("http://127.0.0.1:8000"),
  "sees only the slot's GPUs": (s) => expect(s.launch().env.CUDA_VISIBLE_DEVICES).toBe("2,3"),
  "sees all GPUs when the slot names none": (s) => {
    const { gpus: _, ...slot } = SAMPLE_SLOT;
    expect(s.launch({ slot }).env).not.toHaveProperty("CUDA_VISIBLE_DEVICES");
  },
  "has a readiness deadline and a grace": (s) => {
    for (const plan of s.all()) {
      expect(plan.ready.timeoutMs).toBe(120_000);
      expect(plan.stop.graceMs).toBeGreaterThan(0);
    }
  },
  "says what it renders": (s) => {
    for (const offload of KV_OFFLOADS)
      for (const role of ROLES) {
        if (!s.engine.cell(offload, role).supported) continue;
        const plan = s.launch({ offload, role });
        expect([plan.engine, plan.kvOffload, plan.role]).toEqual([s.engine.kind, offload, role]);
        expect(plan.model).toBe(SAMPLE_MODEL.name);
      }
  },
  "prints no undefined, null, NaN or empty flag": (s) => {
    for (const plan of s.all()) {
      expect(JSON.stringify(plan)).not.toMatch(/undefined|NaN|\[object/);
      expect(plan.argv.every((word) => word !== "" && word !== "-" && word !== "--")).toBe(true);
    }
  },
  "gives each flag a reason with its source": (s) => {
    for (const plan of s.all()) {
      const flags = plan.argv.filter((word) => /^--[a-z]/.test(word));
      for (const flag of flags) {
        const reason = plan.reasons.find((r) => r.arg === flag);
        expect(reason, `${flag} of ${plan.kvOffload}/${plan.role}`).toBeDefined();
        expect(reason?.why).not.toBe("");
        expect(reason?.source).not.toBe("");
      }
    }
  },
  "does not double what the user wrote": (s) => {
    const { argv } = s.launch(withExtra("--port", "8000", "--host", "127.0.0.1"));
    expect(argv.filter((word) => word === "--port")).toHaveLength(1);
    expect(argv.filter((word) => word === "--host")).toHaveLength(1);
  },
  "has one of each flag when the user writes any that it renders": (s) => {
    for (const flag of parseUserArgs(s.launch().argv).filter(({ name }) => name.startsWith("--"))) {
      const same = parseUserArgs(s.launch(withExtra(...flag.words)).argv).filter(({ name }) => name === flag.name);
      expect(same, flag.name).toHaveLength(1);
    }
  },
  "passes on flags that it does not know": (s) => {
    const { argv } = s.launch(withExtra("--some-new-flag", "7"));
    expect(argv[argv.indexOf("--some-new-flag") + 1]).toBe("7");
  },
  "refuses a port in extra_args that contradicts the URL": (s) => {
    expect(codeOf(() => s.launch(withExtra("--port", "9999")))).toBe("CONFIG_INVALID");
  },
  "keeps its ports apart and inside its range": (s) => {
    for (const plan of s.all()) {
      const taken = plan.ports
        .filter((p) => p.name !== "prefill-bootstrap")
        .flatMap((p) => Array.from({ length: p.count ?? 1 }, (_, i) => p.port + i));
      expect(new Set(taken).size, JSON.stringify(plan.ports)).toBe(taken.length);
      const inRange = (port: number): boolean => port >= 20_000 && port < 20_000 + SIDE_PORTS;
      expect(taken.every((port) => port === 8000 || inRange(port))).toBe(true);
    }
  },
  "announces KV events where the plan opens them": (s) => {
    const kv = s.engine.announce(sampleInput(s.options)).kv;
    const ports = s.launch().ports;
    if (kv.type === "history") expect(ports.some((p) => p.name === "kv-events")).toBe(false);
    else expect(kv.endpoint).toBe(`tcp://127.0.0.1:${ports.find((p) => p.name === "kv-events")?.port}`);
  },
  "refuses with a reason or supports each cell": (s) => {
    for (const offload of KV_OFFLOADS)
      for (const role of ROLES) {
        const cell = s.engine.cell(offload, role);
        if (!cell.supported) expect(cell.reason.length).toBeGreaterThan(20);
      }
    expect(s.engine.cell("none", "both").supported).toBe(true);
  },
  "has a schema whose every key is described": (s) => {
    expect(s.engine.schema.safeParse({}).success).toBe(true);
    expect(s.engine.schema.safeParse({ no_such_key: 1 }).success).toBe(false);
  },
} as const satisfies Record<string, (subject: Subject<unknown>) => void>;

export type LaunchCase = keyof typeof CASES;

/**
 * Run the launch rules that every engine must keep. One call in each `<engine>.test.ts`.
 *
 * A skip needs its reason next to it and fails once the case passes, so the list only shrinks.
 */
export function runLaunchCases<O>(engine: Engine<O>, options: O, skip: Partial<Record<LaunchCase, string>> = {}): void {
  const launch = (over: Partial<LaunchInput<O>> = {}): LaunchPlan => engine.launch(sampleInput(options, over));
  const subject: Subject<O> = {
    engine,
    options,
    launch,
    all: () =>
      KV_OFFLOADS.flatMap((offload) => ROLES.map((role) => ({ offload, role })))
        .filter(({ offload, role }) => engine.cell(offload, role).supported)
        .map(launch),
  };
  for (const [name, check] of Object.entries(CASES)) {
    const reason = skip[name as LaunchCase];
    it(`${engine.kind} launch ${name}${reason === undefined ? "" : ` (not: ${reason})`}`, () => {
      const run = (): void => (check as (s: Subject<O>) => void)(subject);
      if (reason === undefined) return run();
      expect(run, `passes now: remove the skip "${reason}"`).toThrow();
    });
  }
}

function codeOf(run: () => unknown): string | undefined {
  try {
    run();
    return undefined;
  } catch (e) {
    return isCgnError(e) ? e.code : String(e);
  }
}
