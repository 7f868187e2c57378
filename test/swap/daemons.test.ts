import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { type CgnProcess, freePorts, pidsWith, runCgn, scratch, startCgn, until } from "../helpers/cgn-process.ts";
import { chat } from "../helpers/up.ts";

describe("swap with the agent and two routers as processes of their own", () => {
  const place = scratch();
  let agent: CgnProcess;
  let routers: CgnProcess[] = [];
  let urls: string[] = [];
  let admins: string[] = [];
  let engines: number[] = [];
  const words = (): string => [agent, ...routers].map((each) => each.output()).join("\n---\n");

  beforeAll(async () => {
    const ports = await freePorts(8);
    const [http1 = 0, admin1 = 0, http2 = 0, admin2 = 0, one = 0, two = 0, listen = 0, agentAdmin = 0] = ports;
    engines = [one, two];
    urls = [http1, http2].map((port) => `http://127.0.0.1:${port}`);
    admins = [admin1, admin2].map((port) => `http://127.0.0.1:${port}`);
    const engine = (model: string, port: number): string => `
[[engines]]
kind = "vllm"
model = "${model}"
url = "http://127.0.0.1:${port}"
gpus = [0]

[engines.vllm]
binary = ${JSON.stringify(join(LAUNCHERS, "sim-vllm.mjs"))}
extra_args = ["--sim-profile", "cpu-small", "--sim-load-seconds", "0.3"]
`;
    const toml = `[agent]
listen = "127.0.0.1:${listen}"
listen_admin = "127.0.0.1:${agentAdmin}"
state_dir = ${JSON.stringify(place.dir)}
kv_uds = ${JSON.stringify(join(place.dir, "kv.sock"))}

[swap]
min_residency = "0s"

[models.alpha]
tokenizer = "bytes"

[models.beta]
tokenizer = "bytes"
${engine("alpha", one)}${engine("beta", two)}`;
    const config = ["--config", place.file("cgn.toml", toml)];
    agent = startCgn(["agent", ...config]);
    routers = [
      startCgn(["router", ...config, "--listen", `127.0.0.1:${http1}`, "--admin", `127.0.0.1:${admin1}`]),
      startCgn(["router", ...config, "--listen", `127.0.0.1:${http2}`, "--admin", `127.0.0.1:${admin2}`]),
    ];
    const known = async (url: string): Promise<boolean> => {
      const list = await fetch(`${url}/v1/models`)
        .then((reply) => reply.json())
        .catch(() => undefined);
      return (list as { data?: unknown[] } | undefined)?.data?.length === 2;
    };
    const ready = async (): Promise<true | undefined> =>
      (await Promise.all(urls.map(known))).every(Boolean) ? true : undefined;
    await until("both routers know both models", 120_000, ready, words);
  }, 90_000);

  afterAll(async () => {
    for (const each of [...routers, agent]) each.child.kill("SIGTERM");
    await Promise.all([...routers, agent].map((each) => each.exit));
    place.dispose();
  }, 60_000);

  const ask = (url: string, model: string, tokens: number) =>
    chat(url, { model, max_tokens: tokens, stream: true, messages: [{ role: "user", content: "hi" }] });

  it("loads on a router's request, and cuts no stream of the other router by a swap", async () => {
    expect(await ask(urls[0]!, "alpha", 4), words()).toMatchObject({ status: 200, finished: true });
    const long = ask(urls[1]!, "alpha", 150);
    await until("the stream runs", 120_000, async () => {
      const status = (await (await fetch(`${admins[1]}/v1/cgn/status`)).json()) as {
        workers: { load: { inFlight: number } }[];
      };
      return status.workers.some(({ load }) => load.inFlight === 1) ? true : undefined;
    });
    let longEnded = false;
    void long.then(() => (longEnded = true));
    const other = await ask(urls[0]!, "beta", 4);
    expect(other, words()).toMatchObject({ status: 200, finished: true });
    expect(longEnded).toBe(true);
    expect(await long).toMatchObject({ status: 200, finished: true, error: undefined });
    expect(pidsWith("serve", "--port", String(engines[0]))).toEqual([]);
  }, 60_000);

  it("loads by hand through any router", async () => {
    const { out, err } = await runCgn(["load", "alpha", "--admin", admins[1]!]);
    expect(out, err + words()).toMatch(/alpha {2}ready/);
  }, 60_000);
});
