import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { findEngine } from "../../../engines/registry.ts";
import { SAMPLE_MODEL, sampleInput } from "../../../engines/sample-input.ts";
import { comparable, wordsOf } from "../../testing/answer-shape.ts";
import { chat, chunks, closeAll, deps, post, read, track, until } from "../../testing/sim-client.ts";
import { type SimServer, startSim } from "../sim-server.ts";
import { readLlamaArgv } from "./llama-argv.ts";

afterEach(closeAll);

async function llama(extra: readonly string[] = []): Promise<SimServer> {
  const argv = ["-m", "/models/smollm2.gguf", "--alias", "smollm2", "--port", "0", "-c", "8192", "-np", "4"];
  const flags = ["--metrics", "--props", "--slot-save-path", "/tmp", "--sim-profile", "instant"];
  return track(await startSim(readLlamaArgv([...argv, ...flags, ...extra], {}), deps));
}

interface Recorded {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

const RECORDED = read("llama/recorded.jsonl")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);

/** With the headers that Node's client leaves out. */
function ask(url: string, { method, path, body }: Pick<Recorded, "method" | "path" | "body">) {
  return new Promise<{ status: number; headers: Record<string, unknown>; text: string }>((resolve, reject) => {
    const sent = request(`${url}${path}`, { method, headers: { "content-type": "application/json" } }, (res) => {
      let text = "";
      res.setEncoding("utf8");
      res.on("data", (part: string) => (text += part));
      res.on("end", () => resolve({ status: res.statusCode ?? 0, headers: res.headers, text }));
    });
    sent.on("error", reject);
    sent.end(body === null ? undefined : JSON.stringify(body));
  });
}

/** Two need what came before (slots in use, a saved slot); one has ids of SmolLM2's vocabulary. */
const APART = new Set(["get_slots_after", "slot_restore", "detokenize"]);

/** What only the simulator has. */
const unmarked = (shape: string): string => shape.replace(",simulated:boolean", "");

describe("a simulated llama-server", () => {
  it.each(RECORDED.filter(({ name }) => !APART.has(name)))("answers $name as the recorded one", async (one) => {
    const server = await llama();
    const { status, headers, text } = await ask(server.url, one);
    expect(status).toBe(one.status);
    for (const name of [
      "server",
      "content-type",
      "keep-alive",
      "connection",
      "x-accel-buffering",
      "transfer-encoding",
    ]) {
      expect(headers[name], name).toBe(one.headers[name]);
    }
    const type = one.headers["content-type"] ?? "";
    expect(unmarked(comparable(type, text))).toBe(comparable(type, one.text));
    if (one.status >= 400) expect(wordsOf(text)).toBe(wordsOf(one.text));
  });

  it("shows in /slots what a slot did, and saves and restores it", async () => {
    const server = await llama();
    await post(server, "/completion", { prompt: "Once upon a time", n_predict: 4, stream: true });
    const slots = await (await fetch(`${server.url}/slots`)).text();
    const recorded = RECORDED.find(({ name }) => name === "get_slots_after")!;
    // The recorded ones were all used.
    const [used] = JSON.parse(recorded.text) as object[];
    const [found] = (JSON.parse(slots) as { readonly id_task?: number }[]).filter(
      ({ id_task }) => id_task !== undefined,
    );
    expect(comparable("application/json", JSON.stringify(found))).toBe(
      comparable("application/json", JSON.stringify(used)),
    );
    expect(found).toMatchObject({ is_processing: false, n_prompt_tokens: 16 + 3 });
    const id = (found as { readonly id?: number }).id;
    const saved = await post(server, `/slots/${id}?action=save`, { filename: "a.bin" });
    expect(saved.json).toMatchObject({ id_slot: id, n_saved: 19 });
    expect((await post(server, "/slots/0?action=restore", { filename: "a.bin" })).json).toMatchObject({
      n_restored: 19,
    });
    expect((await post(server, "/slots/0?action=erase", {})).json).toEqual({ id_slot: 0, n_erased: 19 });
  });

  it("counts cached tokens by slots and store: a linear slot, a conversation that comes back from the store", async () => {
    const server = await llama(["-np", "1"]);
    const cached = async (content: string): Promise<number> =>
      (await post(server, "/v1/chat/completions", chat(content, { max_tokens: 1 }))).json.usage.prompt_tokens_details
        .cached_tokens;
    const [a, b] = ["a".repeat(300), "b".repeat(300)];
    expect(await cached(a)).toBe(0);
    const again = await cached(a);
    expect(again).toBe(17 + 300 + 33 - 1);
    // Another conversation shares the turn's head only: it takes the slot, and the first goes to the store.
    expect(await cached(b)).toBe(17);
    expect(await cached(a)).toBe(again);
  });

  it("closes the connection after a stream, without having said so", async () => {
    const server = await llama();
    const body = JSON.stringify(chat("hi", { stream: true, max_tokens: 2 }));
    const socket = connect(server.port, "127.0.0.1");
    let said = "";
    socket.on("data", (part) => (said += part.toString()));
    const closed = new Promise<void>((resolve) => socket.on("end", resolve));
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await closed;
    expect(said).toContain("[DONE]");
    expect(said).not.toMatch(/^connection: close/im);
    socket.destroy();
  });

  it("goes on with a whole answer when its client leaves, and ends a stream", async () => {
    const server = await llama(["--sim-profile", "default"]);
    const leave = new AbortController();
    const ask = (stream: boolean) =>
      fetch(`${server.url}/v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify(chat("x", { stream, max_tokens: 3000, ignore_eos: true })),
        signal: leave.signal,
      }).catch(() => undefined);
    void ask(false);
    await ask(true);
    await until(() => server.engine.loop.model.running === 2);
    leave.abort();
    await until(() => server.engine.loop.model.running === 1);
    expect(server.engine.loop.model.running).toBe(1);
  });

  it("terminate() cuts a stream at the next ping, without an end", async () => {
    const server = await llama(["--sim-profile", "default", "--sse-ping-interval", "0"]);
    const running = post(
      server,
      "/v1/chat/completions",
      chat("x", { stream: true, max_tokens: 3000, ignore_eos: true }),
    );
    await until(() => server.engine.active.size === 1);
    const done = server.terminate();
    await expect(running).rejects.toThrow();
    await done;
  });

  it("answers 503 while the model loads, and 401 without the key but for health", async () => {
    const server = await llama(["--api-key", "k1,k2"]);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    const refused = await fetch(`${server.url}/metrics`);
    expect(refused.status).toBe(401);
    expect(await refused.json()).toEqual({
      error: { code: 401, message: "Invalid API Key", type: "authentication_error" },
    });
    expect((await fetch(`${server.url}/metrics`, { headers: { "x-api-key": "k2" } })).status).toBe(200);
  });

  it("streams n answers beside each other, each with its own figures", async () => {
    const server = await llama();
    const { text } = await post(server, "/v1/chat/completions", chat("x", { n: 2, stream: true, max_tokens: 3 }));
    const ends = chunks(text).filter((chunk) => chunk.choices[0]?.finish_reason === "length");
    expect(ends.map((chunk) => [chunk.choices[0].index, chunk.timings.predicted_n])).toEqual([
      [0, 3],
      [1, 3],
    ]);
  });
});

describe("cgn's own view of a simulated llama-server", () => {
  const engine = findEngine("llama_cpp");

  it("takes the command line that cgn renders", () => {
    const options = engine.schema.parse({ mode: "binary", binary: "llama-server" });
    const input = sampleInput(options, { model: { ...SAMPLE_MODEL, path: "/models/m.gguf" } });
    const told = readLlamaArgv(engine.launch(input).argv.slice(1), {});
    expect(told).toMatchObject({ modelPath: "/models/m.gguf", metrics: true, port: input.slot.port });
  });

  it("is understood by the probe: ready, models, load, slots, template, vocabulary", async () => {
    const server = await llama();
    const ask = async (path: string) => {
      const res = await fetch(`${server.url}${path}`);
      return { status: res.status, body: await res.text() };
    };
    const { probe } = engine;
    expect(probe.ready.verdict(await ask(probe.ready.path))).toBe("ready");
    const models = probe.models!.parse((await ask(probe.models!.path)).body);
    expect(models[0]).toMatchObject({ id: "smollm2" });
    expect(probe.metrics!.parse((await ask(probe.metrics!.path)).body)).toMatchObject({ running: 0, waiting: 0 });
    const props = (await ask("/props")).body;
    expect(probe.kvSources!.parse(props, "127.0.0.1")[0]).toMatchObject({ type: "history", slots: { count: 4 } });
    expect(probe.tokenizer!.parse(props)).toEqual({ bytes: true });
    expect(probe.template!.parse(props)?.template).toContain("<|im_start|>");
  });
});

describe("readLlamaArgv()", () => {
  const refusal = (argv: readonly string[], env = {}): string => {
    try {
      readLlamaArgv(argv, env);
      return "taken";
    } catch (e) {
      return (e as Error).message;
    }
  };

  it.each([
    [["-m", "x", "--x"], "error: invalid argument: --x"],
    [["-m", "x", "--port=5"], "error: invalid argument: --port=5"],
    [["-m", "x", "--no-mmap"], "error: invalid argument: --no-mmap"],
    [["-m", "x", "--port"], 'error while handling argument "--port": expected value for argument'],
    [["-m", "x", "--ctx-size", "abc"], 'error while handling argument "--ctx-size": stoi'],
    [["-m", "x", "-np", "0"], 'error while handling argument "--parallel"'],
  ])("refuses %j as llama-server does", (argv, words) => {
    expect(refusal(argv)).toContain(words);
  });

  it("refuses a bad environment variable by its name", () => {
    expect(refusal(["-m", "x"], { LLAMA_ARG_CTX_SIZE: "abc" })).toContain(
      'error while handling environment variable "LLAMA_ARG_CTX_SIZE": stoi',
    );
  });

  it("takes short names, underscores, switches that turn off, and variables; the command line wins", () => {
    const read = readLlamaArgv(["-m", "/a/b.gguf", "--ctx_size", "4096", "-np", "2", "--no-slots", "-nkvo"], {
      LLAMA_ARG_CTX_SIZE: "99",
      LLAMA_ARG_ENDPOINT_METRICS: "1",
    });
    expect(read).toMatchObject({ models: ["b.gguf"], maxModelTokens: 2048, metrics: true, port: 8080 });
    expect(read.llama?.slotsEndpoint).toBe(false);
  });

  it("shares one context among four slots when --parallel is left out", () => {
    expect(readLlamaArgv(["-m", "x", "-c", "4096"], {})).toMatchObject({
      maxModelTokens: 4096,
      limits: { maxSequences: 4, slots: { emptiesFree: true } },
    });
  });
});
