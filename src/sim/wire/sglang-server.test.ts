import { afterEach, describe, expect, it } from "vitest";
import {
  chat,
  chunks,
  closeAll,
  eventsFlag,
  eventTypes,
  freePort,
  post,
  read,
  replayFrom,
  sglang,
  shapeOf,
  until,
} from "../testing/sim-client.ts";

afterEach(closeAll);

describe("a simulated SGLang", () => {
  it("answers a chat and streams with the keys of the recorded ones", async () => {
    const server = await sglang();
    const whole = await post(server, "/v1/chat/completions", chat("hello", { model: "whatever" }));
    expect(shapeOf(whole.json)).toEqual(shapeOf(JSON.parse(read("sglang/chat.json")).response.body));
    expect(whole.json.model).toBe("whatever");
    const stream = { stream: true, stream_options: { include_usage: true } };
    const { text } = await post(server, "/v1/chat/completions", chat("hello", stream));
    const [ours, theirs] = [chunks(text), chunks(read("sglang/chat_stream_usage.sse"))];
    for (const at of [0, 1, -2, -1]) expect(shapeOf(ours.at(at))).toEqual(shapeOf(theirs.at(at)));
    const models = await (await fetch(`${server.url}/v1/models`)).json();
    expect(shapeOf(models)).toEqual(shapeOf(JSON.parse(read("sglang/get_models.json")).response.body));
    const completion = await post(server, "/v1/completions", { model: "smollm2", prompt: "Once", max_tokens: 6 });
    expect(shapeOf(completion.json)).toEqual(shapeOf(JSON.parse(read("sglang/completions.json")).response.body));
  });

  it("says an empty cache in batch 0, and a flush at once", async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await sglang(eventsFlag(port, replay));
    await post(server, "/v1/chat/completions", chat("hello there, how are you"));
    expect((await post(server, "/flush_cache", {})).status).toBe(200);
    const frames = (await replayFrom(replay, 0n)).slice(0, -1);
    const types = frames.map(([, , , payload]) => eventTypes(Buffer.from(payload!, "base64")));
    expect(types[0]).toEqual(["AllBlocksCleared"]);
    expect(types.at(-1)).toEqual(["AllBlocksCleared"]);
    const info = await (await fetch(`${server.url}/server_info`)).json();
    expect(info).toMatchObject({
      page_size: 16,
      kv_events: { endpoint_port_base: port, replay_endpoint_port_base: replay, block_size: 16, topic: "kv@test" },
    });
  });

  it("terminate() turns health to 503 and lets the stream finish", async () => {
    const server = await sglang(["--sim-profile", "default"]);
    const running = post(server, "/v1/chat/completions", chat("x", { stream: true, max_tokens: 30, ignore_eos: true }));
    await until(() => server.engine.active.size === 1);
    const done = server.terminate();
    expect((await fetch(`${server.url}/health`)).status).toBe(503);
    expect((await running).text).toContain("[DONE]");
    await done;
  });
});
