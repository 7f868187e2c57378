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
  shapeOf,
  subscribe,
  subscribed,
  vllm,
} from "../testing/sim-client.ts";

afterEach(closeAll);

describe("a simulated vLLM", () => {
  it("answers a chat with the keys of the recorded one, in their order", async () => {
    const server = await vllm();
    const { status, json } = await post(server, "/v1/chat/completions", chat("hello"));
    expect(status).toBe(200);
    expect(shapeOf(json)).toEqual(shapeOf(JSON.parse(read("vllm/chat.json")).response));
    expect(json.choices[0].message.content).toHaveLength(40);
    expect(json.choices[0].finish_reason).toBe("length");
  });

  it("streams a chat with the keys of the recorded one: role, tokens, end, usage", async () => {
    const server = await vllm();
    const stream = { stream: true, stream_options: { include_usage: true }, max_tokens: 2000 };
    const { text } = await post(server, "/v1/chat/completions", chat("hello", stream));
    const ours = chunks(text);
    const theirs = chunks(read("vllm/chat_stream.sse"));
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    for (const [a, b] of [
      [0, 0],
      [1, 1],
      [-2, -2],
      [-1, -1],
    ] as const) {
      expect(shapeOf(ours.at(a))).toEqual(shapeOf(theirs.at(b)));
    }
    expect(ours.at(-2).choices[0].finish_reason).toBe("stop");
    const whole = await post(server, "/v1/chat/completions", chat("hello", { max_tokens: 2000 }));
    expect(ours.map((c) => c.choices[0]?.delta.content ?? "").join("")).toBe(whole.json.choices[0].message.content);
  });

  it("gives usage in a stream only when asked", async () => {
    const server = await vllm();
    const { text } = await post(server, "/v1/chat/completions", chat("hello", { stream: true }));
    expect(text).not.toContain('"usage"');
  });

  it("leaves prompt_tokens_details null without --enable-prompt-tokens-details", async () => {
    const server = await vllm(["--no-enable-prompt-tokens-details"]);
    const { json } = await post(server, "/v1/chat/completions", chat("hello"));
    expect(json.usage.prompt_tokens_details).toBeNull();
  });

  it("reports a second turn's cached tokens in whole blocks, as the metrics do", async () => {
    const server = await vllm();
    const first = await post(server, "/v1/chat/completions", chat("Tell me something about rivers."));
    const answer = first.json.choices[0].message;
    expect(first.json.usage.prompt_tokens_details.cached_tokens).toBe(0);
    const messages = [
      { role: "user", content: "Tell me something about rivers." },
      { role: "assistant", content: answer.content },
      { role: "user", content: "More." },
    ];
    const second = await post(server, "/v1/chat/completions", { model: "alias", messages, max_tokens: 5 });
    // The first turn's last token has no KV.
    const known = first.json.usage.total_tokens - 1;
    const cached = second.json.usage.prompt_tokens_details.cached_tokens;
    expect(cached).toBe(Math.floor(known / 16) * 16);
    expect(second.json.model).toBe("sim");
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    expect(metrics).toContain(`vllm:prefix_cache_hits_total{engine="0",model_name="sim"} ${cached}.0`);
  });

  it("tokenizes chats to the very ids it caches, and back", async () => {
    const server = await vllm();
    const ids = await post(server, "/tokenize", chat("hi"));
    expect(Object.keys(ids.json)).toEqual(["count", "max_model_len", "tokens", "token_strs"]);
    const back = await post(server, "/detokenize", { model: "sim", tokens: ids.json.tokens });
    expect(back.json.prompt).toBe("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    const one = await post(server, "/v1/completions", { model: "sim", prompt: ids.json.tokens, max_tokens: 3 });
    expect(one.json.usage.prompt_tokens).toBe(ids.json.count);
  });

  it("refuses as vLLM does: unknown model 404, bad body 400, too long 400, unknown path 404", async () => {
    const server = await vllm(["--max-model-len", "200"]);
    const nope = await post(server, "/v1/chat/completions", chat("x", { model: "nope" }));
    expect([nope.status, nope.json.error.type, nope.json.error.code]).toEqual([404, "NotFoundError", 404]);
    expect((await post(server, "/v1/chat/completions", { model: "sim", messages: "x" })).status).toBe(400);
    expect((await post(server, "/v1/chat/completions", "", { body: "{" })).status).toBe(400);
    const long = await post(server, "/v1/chat/completions", chat("x", { max_tokens: 500 }));
    expect([long.status, long.json.error.type]).toEqual([400, "BadRequestError"]);
    expect((await fetch(`${server.url}/nope`)).status).toBe(404);
    expect((await fetch(`${server.url}/v1/chat/completions`)).status).toBe(405);
  });

  it("tells where its events are, with the keys of the recorded answer", async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await vllm(eventsFlag(port, replay));
    const sources = await (await fetch(`${server.url}/kv_event_sources`)).json();
    expect(shapeOf(sources).sort()).toEqual(shapeOf(JSON.parse(read("vllm/kv_event_sources.json"))).sort());
  });

  it("publishes events live, replays the very same frames, and a reset with the next step", async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await vllm([...eventsFlag(port, replay), "--sim-blocks", "40"]);
    const sub = subscribe(port);
    await subscribed(server, sub);
    const first = await sub.receive();
    await post(server, "/v1/chat/completions", chat("x".repeat(300)));
    const types = (frame: readonly Buffer[]) => eventTypes(frame[2]!);
    let live = first;
    while (!types(live).includes("BlockStored") || live[1]!.readBigUInt64BE() === 0n) live = await sub.receive();
    expect(live[0]!.toString()).toBe("kv@test");
    expect((await post(server, "/reset_prefix_cache", {})).json).toEqual({ success: true });
    await post(server, "/v1/chat/completions", chat("y".repeat(40)));
    let afterReset = await sub.receive();
    while (!types(afterReset).includes("AllBlocksCleared")) afterReset = await sub.receive();
    expect(types(afterReset)).toEqual(["AllBlocksCleared", "BlockStored"]);
    const frames = await replayFrom(replay, live[1]!.readBigUInt64BE());
    expect(frames[0]).toEqual(["", ...live.map((part) => part.toString("base64"))]);
    expect(frames.at(-1)).toEqual(["", "", Buffer.alloc(8, 0xff).toString("base64"), ""]);
    expect(await replayFrom(replay, 1_000_000n)).toHaveLength(1);
  });

  it("evicts when the cache is full, and says so", async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await vllm([...eventsFlag(port, replay), "--sim-blocks", "30", "--max-model-len", "480"]);
    for (const word of ["a", "b", "c"]) await post(server, "/v1/chat/completions", chat(word.repeat(200)));
    const frames = (await replayFrom(replay, 0n)).slice(0, -1);
    const events = frames.flatMap(([, , , payload]) => eventTypes(Buffer.from(payload!, "base64")));
    expect(events.filter((type) => type === "BlockRemoved").length).toBeGreaterThan(0);
  });
});

describe("a simulated vLLM that sleeps", () => {
  it("sleeps and wakes by vLLM's calls, only with the flag", async () => {
    const flagless = await vllm();
    expect((await post(flagless, "/sleep", {})).status).toBe(500);
    const server = await vllm(["--enable-sleep-mode"]);
    expect(await post(server, "/sleep?level=1&mode=wait", {})).toMatchObject({
      json: { status: "sleeping", level: 1 },
    });
    expect(await (await fetch(`${server.url}/is_sleeping`)).json()).toEqual({ is_sleeping: true });
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    let answered = false;
    const waiting = post(server, "/v1/chat/completions", chat("hello")).then((reply) => {
      answered = true;
      return reply;
    });
    expect((await post(server, "/wake_up", {})).json).toEqual({ status: "awake", tags: null });
    expect((await waiting).status).toBe(200);
    expect(answered).toBe(true);
  });

  it("has forgotten its cache, and after level 2 its weights until they are loaded again", async () => {
    const server = await vllm(["--enable-sleep-mode"]);
    const long = chat("the same prompt again and again ".repeat(8));
    const cached = async (): Promise<number> =>
      (await post(server, "/v1/chat/completions", long)).json.usage.prompt_tokens_details.cached_tokens;
    await cached();
    expect(await cached()).toBeGreaterThan(0);
    await post(server, "/sleep?level=2&mode=wait", {});
    expect((await post(server, "/wake_up?tags=weights", {})).json).toEqual({ status: "sleeping", tags: ["weights"] });
    await post(server, "/wake_up?tags=kv_cache", {});
    expect((await post(server, "/v1/chat/completions", long)).status).toBe(500);
    await post(server, "/collective_rpc", { method: "reload_weights" });
    expect(await cached()).toBe(0);
  });
});
