import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatDurationMs } from "../core/units.ts";
import { ENGINES } from "../engines/registry.ts";
import { configSchema } from "./config-schema.ts";
import { addEnvironmentLayer, environmentName } from "./environment.ts";
import { formatKeyPath } from "./key-path.ts";
import { type Layers, newLayers } from "./layers.ts";
import { loadConfig } from "./load.ts";
import { at, formatProblem } from "./problems.ts";
import { SAMPLE_HOST } from "./sample-host.ts";
import { schemaKeys } from "./schema-walk.ts";

const SCHEMA = configSchema(ENGINES);

function layersOf(env: Record<string, string>, tree: Record<string, unknown> = {}): Layers {
  const layers = newLayers();
  Object.assign(layers.tree, tree);
  addEnvironmentLayer(layers, env, SCHEMA, () => "secret\n");
  return layers;
}

const load = (env: Record<string, string>) => loadConfig({ env, cwd: "/nowhere", host: SAMPLE_HOST, engines: ENGINES });

/** Keys that hold a value, with the names that a file would choose filled in. */
const LEAVES = schemaKeys(SCHEMA)
  .filter((key) => !["table", "record"].includes(key.info.shape.type) && !key.path.includes("[]"))
  .filter((key) => key.path.join(".") !== "engines");

describe("addEnvironmentLayer()", () => {
  it("addEnvironmentLayer() reaches every key by its own name", () => {
    fc.assert(
      fc.property(fc.constantFrom(...LEAVES), fc.nat(1_000_000), fc.boolean(), (key, number, yes) => {
        const { shape } = key.info;
        const [text, expected]: [string, unknown] =
          shape.type === "integer" || shape.type === "number"
            ? [String(number), number]
            : shape.type === "boolean"
              ? [yes ? "1" : "false", yes]
              : shape.type === "list"
                ? [`["a${number}"]`, [`a${number}`]]
                : [`a${number}`, `a${number}`];
        const layers = layersOf({ [environmentName(key.path)]: text });
        expect(layers.problems.map(formatProblem)).toEqual([]);
        expect(at(layers.tree, key.path)).toEqual(expected);
        expect(layers.origins.get(formatKeyPath(key.path))).toMatchObject({ from: "environment" });
      }),
    );
  });

  it("addEnvironmentLayer() reads durations, and milliseconds by the twin", () => {
    fc.assert(
      fc.property(fc.nat(10_000_000), (ms) => {
        const spelled = load({ CGN__AGENT__HEARTBEAT: formatDurationMs(ms) }).settings.agent.heartbeatMs;
        const twin = load({ CGN__AGENT__HEARTBEAT_MS: String(ms) }).settings.agent.heartbeatMs;
        expect([spelled, twin]).toEqual([ms, ms]);
      }),
    );
  });

  it("addEnvironmentLayer() finds models by their names when the file has them, whatever the letters", () => {
    const layers = layersOf(
      { CGN__MODELS__QWEN_QWEN3_8B__TP: "4", CGN__MODELS__NEW__HF_REPO: "org/new" },
      { models: { "Qwen/Qwen3-8B": { tp: 1 } } },
    );
    expect(layers.tree.models).toEqual({ "Qwen/Qwen3-8B": { tp: 4 }, NEW: { hf_repo: "org/new" } });
  });

  it("addEnvironmentLayer() sets and appends entries of [[engines]] by number", () => {
    const layers = layersOf(
      { CGN__ENGINES__0__PORT: "9000", CGN__ENGINES__1__KIND: "mlx", CGN__ENGINES__7__KIND: "mlx" },
      { engines: [{ kind: "vllm" }] },
    );
    expect(layers.tree.engines).toEqual([{ kind: "vllm", port: 9000 }, { kind: "mlx" }]);
    expect(layers.problems.map(formatProblem).join()).toContain("CGN__ENGINES__7__KIND: warning");
  });

  it("addEnvironmentLayer() reads lists comma separated, and aliases", () => {
    const { settings } = load({ CGN__CLUSTER__ETCD: "http://a:1, http://b:2", CGN__ENGINE__MLX_LM__PORT: "8091" });
    expect(settings.cluster.etcdEndpoints).toEqual(["http://a:1", "http://b:2"]);
    expect(layersOf({ CGN__ENGINE__MLX_LM__PORT: "8091" }).tree).toEqual({ engine: { mlx: { port: 8091 } } });
    expect(layersOf({ CGN__ENGINE__GPUS: "2,3" }).tree).toEqual({ engine: { gpus: [2, 3] } });
  });

  it("addEnvironmentLayer() reads the file of a secret", () => {
    expect(layersOf({ CGN__ROUTER__RATE_LIMIT__REDIS_URL_FILE: "/x" }).tree).toEqual({
      router: { rate_limit: { redis_url: "secret" } },
    });
  });

  it("addEnvironmentLayer() warns of a name that fits no key, and tells the nearest", () => {
    expect(layersOf({ CGN__ROUTER__POLICI: "ttft" }).problems.map(formatProblem)).toEqual([
      "CGN__ROUTER__POLICI: warning: no key has this name; it is ignored. Did you mean CGN__ROUTER__POLICY?",
    ]);
  });

  // Capital letters counted as changes: only a name of almost the same letters was found.
  it("addEnvironmentLayer() finds the nearest name whatever its case", () => {
    const said = (variable: string) => layersOf({ [variable]: "1" }).problems[0]?.remedy;
    expect(said("CGN__ROUTER__POLCY")).toBe("Did you mean CGN__ROUTER__POLICY?");
    expect(said("CGN__router__lissten_http")).toBe("Did you mean CGN__ROUTER__LISTEN_HTTP?");
  });

  it("loadConfig() names the variable of a wrong value", () => {
    expect(load({ CGN__AUTH__ENABLED: "maybe", CGN__AGENT__HEARTBEAT: "5" }).problems.map(formatProblem)).toEqual([
      'CGN__AGENT__HEARTBEAT: error: agent.heartbeat: "5" is no duration. Write a number and a unit (ms, s, m, h, d), for example "5s" or "1m30s"',
      'CGN__AUTH__ENABLED: error: auth.enabled: "maybe" is a text. Write true or false, without quotes',
    ]);
  });
});
