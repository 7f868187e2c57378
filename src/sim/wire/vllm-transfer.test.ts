import { afterEach, describe, expect, it } from "vitest";
import { chat, closeAll, freePort, post, startTracked, until } from "../testing/sim-client.ts";
import type { SimServer } from "./sim-server.ts";
import { readVllmArgv } from "./vllm-argv.ts";

afterEach(closeAll);

interface Leg {
  readonly role: "kv_producer" | "kv_consumer";
  readonly connector?: string;
  readonly policy?: "fail" | "recompute";
  readonly speed?: number;
}

async function leg({ role, connector = "NixlConnector", policy = "fail", speed = 1 }: Leg): Promise<SimServer> {
  const transfer = { kv_connector: connector, kv_role: role, engine_id: `eng-${role}`, kv_load_failure_policy: policy };
  const argv = ["serve", "m", "--port", "0", "--served-model-name", "sim", "--block-size", "16"];
  const flags = ["--enable-prompt-tokens-details", "--kv-transfer-config", JSON.stringify(transfer)];
  const port = String(await freePort());
  const sim = ["--sim-profile", "instant", "--sim-speed", String(speed)];
  return startTracked(readVllmArgv([...argv, ...flags, ...sim], { VLLM_NIXL_SIDE_CHANNEL_PORT: port }));
}

const PREFILL = { do_remote_decode: true, do_remote_prefill: false };
const LONG = "Which city is the capital of France, and which river runs through it?";

const ask = (server: SimServer, params: object, more: object = {}, init: RequestInit = {}) =>
  post(server, "/v1/chat/completions", chat(LONG, { kv_transfer_params: params, ...more }), init);

describe("a simulated vLLM pair over NIXL", () => {
  it("frees what no decode reads in time; one that comes late is answered, as with any stale parameters", async () => {
    // 480 s become 48 ms.
    const [p, d] = [await leg({ role: "kv_producer", speed: 10_000 }), await leg({ role: "kv_consumer" })];
    const params = (await ask(p, PREFILL, { max_tokens: 1 })).json.kv_transfer_params;
    await until(() => p.engine.loop.model.usedBlocks === 0);
    expect((await ask(d, params)).status).toBe(200);
  });

  it("hands a prompt over: the recorded parameters, P's cache hits in D's usage, P's blocks free afterwards", async () => {
    const [p, d] = [await leg({ role: "kv_producer" }), await leg({ role: "kv_consumer" })];
    const first = await ask(p, PREFILL, { max_tokens: 1 });
    const params = first.json.kv_transfer_params;
    expect(Object.keys(params)).toEqual([
      "do_remote_prefill",
      "do_remote_decode",
      "remote_block_ids",
      "remote_engine_id",
      "remote_request_id",
      "remote_host",
      "remote_port",
      "tp_size",
      "dcp_size",
      "pp_size",
      "remote_num_tokens",
      "remote_blocks_expiry_time",
      "transfer_mode",
      "remote_prefill_cached_tokens",
    ]);
    expect(params).toMatchObject({ remote_engine_id: "eng-kv_producer", transfer_mode: "pull" });
    expect(params.remote_request_id).toMatch(new RegExp(`^${first.json.id}-[0-9a-f]{8}$`));
    expect(p.engine.loop.model.usedBlocks).toBeGreaterThan(0);
    const answer = await ask(d, params);
    expect(answer.status).toBe(200);
    expect(answer.json.kv_transfer_params).toBeNull();
    expect(answer.json.usage.prompt_tokens_details.cached_tokens).toBe(0);
    expect(d.engine.loop.model.counters.transferredTokens).toBeGreaterThan(90);
    await until(() => p.engine.loop.model.usedBlocks === 0);
    const again = await ask(p, PREFILL, { max_tokens: 1 });
    const told = again.json.kv_transfer_params.remote_prefill_cached_tokens;
    expect(told).toBeGreaterThan(0);
    const second = await ask(d, again.json.kv_transfer_params);
    expect(second.json.usage.prompt_tokens_details.cached_tokens).toBe(told);
  });

  it("takes stale parameters for another prompt, as the real one does", async () => {
    const [p, d] = [await leg({ role: "kv_producer" }), await leg({ role: "kv_consumer" })];
    const { kv_transfer_params: params } = (await ask(p, PREFILL, { max_tokens: 1 })).json;
    await ask(d, params);
    const stale = await post(d, "/v1/chat/completions", chat("Something else", { kv_transfer_params: params }));
    expect(stale.status).toBe(200);
  });

  it("hangs on partial parameters, and dies when the client gives up", async () => {
    const d = await leg({ role: "kv_consumer" });
    const leave = new AbortController();
    const hanging = ask(d, { do_remote_prefill: true, remote_block_ids: [[1, 2]] }, {}, { signal: leave.signal });
    const outcome = expect(hanging).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(d.engine.phase).toBe("ready");
    leave.abort();
    await outcome;
    await until(() => d.engine.phase === "dead");
    const after = await ask(d, {});
    expect(after).toMatchObject({
      status: 500,
      json: { error: { message: "EngineCore encountered an issue. See stack trace (above) for the root cause." } },
    });
  });

  it.each([
    ["fail", 500],
    ["recompute", 200],
  ] as const)("with policy %s a prefill that is not there means %d", async (policy, status) => {
    const d = await leg({ role: "kv_consumer", policy, speed: 100 });
    const params = {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1, 2]],
      remote_engine_id: "other-engine",
      remote_request_id: "chatcmpl-x",
      remote_host: "127.0.0.1",
      remote_port: await freePort(),
    };
    const answer = await ask(d, params);
    expect(answer.status).toBe(status);
    if (status === 500) expect(answer.json.error.message).toBe("Internal server error");
    expect(d.engine.phase).toBe("ready");
  });

  it("fails at once when a known prefill is gone, and for an engine id that is another's", async () => {
    const [p, d] = [await leg({ role: "kv_producer" }), await leg({ role: "kv_consumer" })];
    const { kv_transfer_params: params } = (await ask(p, PREFILL, { max_tokens: 1 })).json;
    expect((await ask(d, { ...params, remote_engine_id: "stranger" })).status).toBe(500);
    await ask(d, params);
    const next = (await ask(p, PREFILL, { max_tokens: 1 })).json.kv_transfer_params;
    await p.close();
    expect((await ask(d, next)).status).toBe(500);
  });

  it("push: the decode waits until the prefill has written, whichever comes first", async () => {
    const connector = "NixlPushConnector";
    const p = await leg({ role: "kv_producer", connector });
    const d = await leg({ role: "kv_consumer", connector });
    const nixl = p.engine.options.nixl!;
    const place = { remote_engine_id: nixl.engineId, remote_host: nixl.host, remote_port: nixl.port };
    const wanted = { do_remote_prefill: true, ...place, remote_request_id: "r", transfer_id: "t-1" };
    let answered = false;
    const decode = ask(d, wanted).then((answer) => {
      answered = true;
      return answer;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(answered).toBe(false);
    await ask(p, { ...PREFILL, transfer_id: "t-1" }, { max_tokens: 1 });
    expect((await decode).status).toBe(200);
    await until(() => p.engine.loop.model.usedBlocks === 0);
  });

  it("leaves the parameters alone without a connector, and on the wrong side", async () => {
    const p = await leg({ role: "kv_producer" });
    expect((await ask(p, { do_remote_prefill: true, remote_block_ids: [[1]] })).status).toBe(200);
  });
});
