import { afterEach, describe, expect, it } from "vitest";
import { chat, closeAll, freePort, post, startTracked } from "../testing/sim-client.ts";
import { readSglangArgv } from "./sglang-argv.ts";
import type { SimServer } from "./sim-server.ts";

afterEach(closeAll);

async function leg(mode: "prefill" | "decode", bootstrap: number, speed = 1): Promise<SimServer> {
  const argv = ["--model-path", "m", "--served-model-name", "sim", "--port", "0", "--page-size", "16"];
  const pair = ["--disaggregation-mode", mode, "--disaggregation-transfer-backend", "nixl"];
  const place = ["--disaggregation-bootstrap-port", String(bootstrap), "--enable-cache-report"];
  const sim = ["--sim-profile", "instant", "--sim-speed", String(speed)];
  return startTracked(readSglangArgv([...argv, ...pair, ...place, ...sim], {}));
}

const LONG = "What is the capital of France? Answer in one word please.";

const ask = (server: SimServer, fields: object, more: object = {}) =>
  post(server, "/v1/chat/completions", chat(LONG, { ...fields, ...more }));

const room = (port: number | null, number: number) => ({
  bootstrap_host: "127.0.0.1",
  bootstrap_port: port,
  bootstrap_room: number,
});

describe("a simulated SGLang pair", () => {
  it("answers on both legs: one token from the prefill's body, all from the decode", async () => {
    const port = await freePort();
    const [p, d] = [await leg("prefill", port), await leg("decode", port)];
    const fields = room(port, 2 ** 53 - 1);
    const [prefill, decode] = await Promise.all([ask(p, fields), ask(d, fields)]);
    expect([prefill.status, decode.status]).toEqual([200, 200]);
    expect(prefill.json).toMatchObject({ usage: { completion_tokens: 1 }, choices: [{ finish_reason: "length" }] });
    expect(decode.json.usage.completion_tokens).toBe(40);
    expect(d.engine.loop.model.counters.transferredTokens).toBeGreaterThan(60);
  });

  it("stalls the prefill until the decode comes, and reports the prefill's cache on both legs", async () => {
    const port = await freePort();
    const [p, d] = [await leg("prefill", port), await leg("decode", port)];
    await Promise.all([ask(p, room(port, 1)), ask(d, room(port, 1))]);
    let answered = false;
    const prefill = ask(p, room(port, 2)).then((answer) => {
      answered = true;
      return answer;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(answered).toBe(false);
    // The decode's flag stands for a port of null.
    const decode = await ask(d, room(null, 2), { stream: true, stream_options: { include_usage: true } });
    const told = /"cached_tokens":(\d+)/.exec(decode.text)?.[1];
    const cached = (await prefill).json.usage.prompt_tokens_details.cached_tokens;
    expect(cached).toBeGreaterThan(0);
    expect(told).toBe(String(cached));
  });

  it("refuses on either leg what has no room", async () => {
    const port = await freePort();
    for (const server of [await leg("prefill", port), await leg("decode", port)]) {
      expect(await ask(server, {})).toMatchObject({
        status: 400,
        json: { message: "Disaggregated request received without bootstrap room id", code: 400 },
      });
    }
  });

  it("fails the decode after a while when the bootstrap server is elsewhere, and leaves the prefill waiting", async () => {
    const port = await freePort();
    const [p, d] = [await leg("prefill", port, 100), await leg("decode", port, 100)];
    let answered = false;
    const prefill = ask(p, room(port, 7)).then(() => {
      answered = true;
    });
    const decode = await ask(d, room(await freePort(), 7));
    expect(decode.status).toBe(500);
    expect(decode.json.message).toContain("Decode handshake failed for request");
    expect(answered).toBe(false);
    // 300 s of its own patience, a hundred times faster.
    await prefill;
    expect(answered).toBe(true);
  }, 20_000);
});
