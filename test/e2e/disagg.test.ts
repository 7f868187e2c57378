import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { freePorts, pidsWith, runCgn, until } from "../helpers/cgn-process.ts";
import { type ChatReply, chat, readyWorkers, startUp, type Up } from "../helpers/up.ts";

type Kind = "vllm" | "sglang";
interface Pair {
  readonly model: string;
  readonly kind: Kind;
  readonly prefill: number;
  readonly decode: number;
}

/** Longer than any answer takes here, shorter than a test's patience. */
const LIMITS = `first_token_timeout = "4s"
answer_timeout = "5s"
stall_timeout = "4s"
[router.disagg]
colocate_below_tokens = 0
prefill_timeout = "3s"
`;

let up: Up;
let pairs: Pair[];
let plain: number;

beforeAll(async () => {
  const [p1 = 0, d1 = 0, p2 = 0, d2 = 0, p3 = 0, d3 = 0, one = 0] = await freePorts(7);
  plain = one;
  pairs = [
    { model: "pull", kind: "vllm", prefill: p1, decode: d1 },
    { model: "push", kind: "vllm", prefill: p2, decode: d2 },
    { model: "bootstrap", kind: "sglang", prefill: p3, decode: d3 },
  ];
  up = await startUp(config, 7);
}, 180_000);
afterAll(async () => void (await up?.stop()));

function config(ports: { readonly http: number; readonly admin: number }, dir: string): string {
  const text = JSON.stringify;
  const engine = (kind: Kind, model: string, role: string, port: number, more: readonly string[] = []): string => `
[[engines]]
kind = "${kind}"
node_id = "${model}-${role}"
model = "${model}"
role = "${role}"
kv_offload = "${role === "both" ? "none" : "nixl"}"
url = "http://127.0.0.1:${port}"
[engines.${kind}]
binary = ${text(join(LAUNCHERS, `sim-${kind}.mjs`))}
extra_args = ${text(["--sim-profile", "instant", "--sim-speed", "100", ...more])}
`;
  const push = (role: "prefill" | "decode"): string[] => [
    "--kv-transfer-config",
    text({
      kv_connector: "NixlPushConnector",
      kv_role: role === "prefill" ? "kv_producer" : "kv_consumer",
      engine_id: `push-${role}`,
    }),
  ];
  const both = ({ kind, model, prefill, decode }: Pair): string =>
    engine(kind, model, "prefill", prefill, model === "push" ? push("prefill") : []) +
    engine(kind, model, "decode", decode, model === "push" ? push("decode") : []);
  return `[router]
listen_http = "127.0.0.1:${ports.http}"
listen_admin = "127.0.0.1:${ports.admin}"
${LIMITS}
[agent]
log_dir = ${text(join(dir, "logs"))}
state_dir = ${text(dir)}
ready_timeout = "60s"
[kv]
index_dir = ${text(join(dir, "index"))}
${[...pairs.map(({ model }) => model), "plain"].map((name) => `[models.${name}]\ntokenizer = "bytes"\n`).join("")}
${pairs.map(both).join("")}${engine("vllm", "plain", "both", plain)}`;
}

const ask = (model: string, question: string, more: object = {}): Promise<ChatReply> =>
  chat(up.url, { model, max_tokens: 12, messages: [{ role: "user", content: question }], ...more });
const question = (n: number): string => `Question ${n}. ${"Tell me of the river and of its towns. ".repeat(3 + n)}`;
const STREAMED = { stream: true, stream_options: { include_usage: true } };

/** Who computed the prompt of the last request. */
async function lastPrefill(): Promise<string | undefined> {
  const reply = await fetch(`${up.admin}/v1/cgn/decisions?limit=1`);
  const { decisions } = (await reply.json()) as {
    decisions: { attempts: { prefill?: { worker: string } }[] }[];
  };
  return decisions[0]?.attempts.at(-1)?.prefill?.worker;
}

async function sumOf(url: string, pattern: RegExp): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return [...text.matchAll(pattern)].reduce((sum, [, value]) => sum + Number(value), 0);
}

/** Requests and KV that an engine still has. */
const HELD =
  /^(?:vllm:(?:num_requests_running|num_requests_waiting|kv_cache_usage_perc)|sglang:(?:num_running_reqs|num_queue_reqs|token_usage))\{[^}]*\} (\S+)$/gm;

async function nothingHeld(): Promise<void> {
  await until("no KV is held, and no booking", 30_000, async () => {
    const ports = [...pairs.flatMap(({ prefill, decode }) => [prefill, decode]), plain];
    const held = await Promise.all(ports.map((port) => sumOf(`http://127.0.0.1:${port}`, HELD)));
    const booked = await sumOf(up.admin, /^cgn_router_worker_inflight\{[^}]*\} (\S+)$/gm);
    return [...held, booked].every((value) => value === 0) ? true : undefined;
  });
}

/** Some requests to each pair at once. Each must end: with its answer, or with an error that says why. */
async function askAllAnd(signal: "SIGKILL" | "SIGSTOP", victims: readonly number[]): Promise<void> {
  const asked = pairs.flatMap(({ model }) =>
    Array.from({ length: 6 }, (_, n) =>
      ask(model, `${signal} ${victims[0]} ${question(n)}`, n % 2 === 0 ? STREAMED : {}),
    ),
  );
  for (const port of victims) for (const pid of pidsWith("--port", String(port))) process.kill(pid, signal);
  for (const reply of await Promise.all(asked)) {
    expect(reply.finished || reply.error !== undefined, JSON.stringify(reply)).toBe(true);
  }
}

const ready = (): Promise<true> =>
  until(
    "all engines are ready",
    100_000,
    async () => ((await readyWorkers(up.admin)) === 7 ? true : undefined),
    up.output,
  );

const role = (node: string, name: string): Promise<Response> =>
  fetch(`${up.admin}/v1/cgn/role?node=${node}&role=${name}`, { method: "POST" });

describe("prefill and decode behind cgn up: vLLM pull, vLLM push and SGLang, simulated", () => {
  it("answers as one engine does, and predicts the prefill engine's cached tokens exactly", {
    timeout: 60_000,
  }, async () => {
    for (const more of [{}, STREAMED]) {
      for (const n of [1, 2]) {
        const one = await ask("plain", question(n), more);
        for (const { model } of pairs) {
          const reply = await ask(model, question(n), more);
          expect(reply).toMatchObject({ status: 200, text: one.text, finished: true, promptTokens: one.promptTokens });
          expect(await lastPrefill(), model).toBe(`${model}-prefill/${model}`);
        }
      }
    }
    for (const { model } of pairs) {
      const count = (name: string, more = "") =>
        sumOf(
          up.admin,
          new RegExp(`^cgn_kvcached_${name}\\{worker="${model}-prefill/${model}"${more}\\} (\\d+)`, "gm"),
        );
      const predicted = await count("predicted_tokens_total");
      expect(predicted, model).toBeGreaterThan(100);
      expect(await count("reported_tokens_total"), model).toBe(predicted);
      expect(await count("predictions_total", ',result="exact"'), model).toBe(4);
    }
    await nothingHeld();
  });

  it("kill -9 of either engine: each request is answered or told why, and both serve again and hold nothing", async () => {
    for (const side of ["prefill", "decode"] as const) {
      await askAllAnd(
        "SIGKILL",
        pairs.map((pair) => pair[side]),
      );
      await ready();
      for (const { model } of pairs) {
        const reply = await ask(model, `${side} is back. ${question(4)}`);
        expect(reply).toMatchObject({ status: 200, finished: true });
        expect(await lastPrefill()).toBe(`${model}-prefill/${model}`);
      }
      await nothingHeld();
    }
  }, 180_000);

  it("SIGSTOP of either engine: each request ends within the limits, and nothing is held once it goes on", async () => {
    const victims = pairs.map(({ model, prefill, decode }) => (model === "push" ? prefill : decode));
    victims.push(pairs[2]!.prefill);
    await askAllAnd("SIGSTOP", victims);
    for (const port of victims) for (const pid of pidsWith("--port", String(port))) process.kill(pid, "SIGCONT");
    await ready();
    await nothingHeld();
  }, 180_000);

  it("cgn role: a node takes another part under requests, and the pair is one again", async () => {
    const refused = await role("plain-both", "decode");
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain('does not accept kv_offload = \\"none\\" with role = \\"decode\\"');
    const running = Array.from({ length: 6 }, (_, n) => ask("pull", `role ${question(n)}`, STREAMED));
    const turned = await runCgn(["role", "pull-prefill", "decode", "--admin", up.admin.replace("http://", "")]);
    expect(turned.out).toMatch(/^restart {2}pull-prefill\/pull /m);
    for (const reply of await Promise.all(running)) expect(reply).toMatchObject({ status: 200, finished: true });
    await ready();
    expect((await role("pull-decode", "prefill")).status).toBe(200);
    await until("they are a pair", 60_000, async () => {
      await ask("pull", `new pair ${question(2)}`);
      return (await lastPrefill()) === "pull-decode/pull" ? true : undefined;
    });
    const drained = await runCgn(["drain", "pull-decode", "--admin", up.admin]);
    expect([drained.code, drained.out]).toEqual([10, "pull-decode  drained\n"]);
    expect((await ask("pull", question(3))).node).toBe("pull-prefill");
    await nothingHeld();
  }, 180_000);
});
