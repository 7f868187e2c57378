import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type EngineLimits, EngineModel, type ModelOutput, type ModelRequest } from "./engine-model.ts";
import { fastNamer } from "./namer.ts";
import { type EngineProfile, PROFILES } from "./profile.ts";

const LIMITS: EngineLimits = {
  blocks: 24,
  blockTokens: 4,
  maxBatchedTokens: 32,
  maxSequences: 4,
  prefixCaching: true,
  generatedBlocks: "as-filled",
  publishesWhenIdle: false,
};

const ROUND: EngineProfile = {
  name: "round",
  source: "this test",
  stepMs: 1,
  prefillMsPerToken: 1,
  decodeMsPerSequence: 2,
  contextMsPerToken: 0,
};

const ids = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => (from + i) % 256);

function request(id: string, prompt: readonly number[], output: readonly number[], salt = ""): ModelRequest {
  return { id, prompt, output, finish: "length", lora: "", salt };
}

function model(limits: Partial<EngineLimits> = {}, profile = ROUND): EngineModel {
  return new EngineModel({ ...LIMITS, ...limits }, profile, fastNamer);
}

/** Advance until nothing is due; at most `limit` times. */
function drain(engine: EngineModel, from: number, limit = 10_000): ModelOutput[] {
  const outputs = [...engine.advance(from)];
  for (let i = 0; i < limit && engine.nextAt !== undefined; i++) outputs.push(...engine.advance(engine.nextAt));
  return outputs;
}

const finished = (outputs: readonly ModelOutput[], id: string) =>
  outputs.find((o) => o.type === "finished" && o.id === id) as Extract<ModelOutput, { type: "finished" }> | undefined;

const kv = (outputs: readonly ModelOutput[]) => outputs.flatMap((o) => (o.type === "events" ? o.events : []));

describe("EngineModel", () => {
  it("advance() gives the first token after the prompt's work, then one a step", () => {
    const engine = model();
    engine.submit(10, request("a", ids(8), [1, 2, 3]));
    const tokens = drain(engine, 10).filter((o) => o.type === "token");
    expect(tokens.map((t) => [t.at, t.token])).toEqual([
      [19, 1],
      [22, 2],
      [25, 3],
    ]);
  });

  it("advance() computes a long prompt in chunks of the token budget", () => {
    const engine = model({ maxBatchedTokens: 8 });
    engine.submit(0, request("a", ids(20), [1]));
    expect(finished(drain(engine, 0), "a")?.at).toBe(9 + 9 + 5);
    expect(engine.counters.steps).toBe(3);
  });

  it("a second turn finds whole blocks: prompt and generated, without the last generated token", () => {
    const engine = model();
    const prompt = ids(9);
    const answer = [100, 101, 102, 103];
    engine.submit(0, request("one", prompt, answer));
    expect(finished(drain(engine, 0), "one")?.use).toEqual({ cachedTokens: 0, createdCacheTokens: 8 });
    // 9 + 4 tokens, the last without KV: 12 computed, three blocks.
    engine.submit(100, request("two", [...prompt, ...answer, 7, 8], [1]));
    expect(finished(drain(engine, 100), "two")?.use.cachedTokens).toBe(12);
  });

  it("a prompt that is cached as a whole has its last block computed again", () => {
    const engine = model();
    engine.submit(0, request("one", ids(8), [1]));
    drain(engine, 0);
    engine.submit(50, request("two", ids(8), [1]));
    const outputs = drain(engine, 50);
    expect(finished(outputs, "two")?.use).toEqual({ cachedTokens: 4, createdCacheTokens: 4 });
    expect(kv(outputs)).toMatchObject([{ type: "stored", tokenIds: [4, 5, 6, 7] }]);
  });

  it("another salt finds nothing, and its events say which", () => {
    const engine = model();
    engine.submit(0, request("one", ids(8), [1]));
    drain(engine, 0);
    engine.submit(50, request("two", ids(8), [1], "tenant-a"));
    const outputs = drain(engine, 50);
    expect(finished(outputs, "two")?.use.cachedTokens).toBe(0);
    expect(kv(outputs)).toMatchObject([{ type: "stored", extra: [[{ kind: "cache_salt", value: "tenant-a" }], []] }]);
  });

  it("eviction tells the removed blocks before what replaces them", () => {
    const engine = model({ blocks: 4 });
    engine.submit(0, request("one", ids(9), [1]));
    drain(engine, 0);
    engine.submit(50, request("two", ids(14, 128), [1]));
    expect(kv(drain(engine, 50)).map((e) => e.type)).toEqual(["removed", "removed", "stored"]);
  });

  it("reset() is published with the next step, or at once where the engine does so", () => {
    for (const publishesWhenIdle of [false, true]) {
      const engine = model({ publishesWhenIdle });
      engine.submit(0, request("one", ids(8), [1]));
      drain(engine, 0);
      expect(engine.reset(40)).toBe(true);
      expect(kv(engine.advance(41)).map((e) => e.type)).toEqual(publishesWhenIdle ? ["cleared"] : []);
      engine.submit(50, request("two", ids(8), [1]));
      const later = kv(drain(engine, 50)).map((e) => e.type);
      expect(later).toEqual(publishesWhenIdle ? ["stored"] : ["cleared", "stored"]);
    }
  });

  it("generated blocks are stored at the finish where the engine does so", () => {
    const engine = model({ generatedBlocks: "at-finish" });
    engine.submit(0, request("one", ids(4), ids(9, 100)));
    const batches = drain(engine, 0).filter((o) => o.type === "events");
    expect(batches.map((b) => b.events.map((e) => (e.type === "stored" ? e.names.length : 0)))).toEqual([[1], [2]]);
  });

  it("abort() frees the blocks at once", () => {
    const engine = model();
    engine.submit(0, request("a", ids(8), ids(50)));
    engine.advance(20);
    engine.abort(21, "a");
    expect(engine.usedBlocks).toBe(0);
    expect(drain(engine, 22).filter((o) => o.type === "token")).toEqual([]);
    expect(engine.counters.finished.abort).toBe(1);
  });

  it("preempts the youngest when blocks run out, and both finish whole", () => {
    const engine = model({ blocks: 6 });
    engine.submit(0, request("a", ids(8), ids(12, 30)));
    engine.submit(0, request("b", ids(8, 90), ids(12, 60)));
    const outputs = drain(engine, 0);
    expect(engine.counters.preemptions).toBeGreaterThan(0);
    for (const [id, answer] of [
      ["a", ids(12, 30)],
      ["b", ids(12, 60)],
    ] as const) {
      expect(
        outputs.filter((o) => o.type === "token" && o.id === id).map((o) => o.type === "token" && o.token),
      ).toEqual(answer);
    }
  });

  it("holdBlocks() makes requests wait until the blocks come back", () => {
    const engine = model();
    engine.holdBlocks(0, undefined);
    engine.submit(1, request("a", ids(8), [1]));
    expect(engine.nextAt).toBeUndefined();
    engine.holdBlocks(100, 0);
    expect(finished(drain(engine, 100), "a")?.at).toBe(109);
  });

  it("submit() refuses what can never fit", () => {
    expect(() => model({ blocks: 2 }).submit(0, request("a", ids(8), [1, 2]))).toThrow(RangeError);
  });

  it("loses no request, conserves blocks, never runs back in time, and repeats itself", () => {
    const anyRequest = fc.record({
      gap: fc.nat(30),
      prompt: fc.integer({ min: 1, max: 40 }),
      from: fc.constantFrom(0, 0, 64, 128),
      output: fc.integer({ min: 1, max: 20 }),
      abortAfter: fc.option(fc.nat(40), { nil: undefined, freq: 4 }),
    });
    fc.assert(
      fc.property(fc.array(anyRequest, { maxLength: 25 }), fc.integer({ min: 15, max: 40 }), (requests, blocks) => {
        const play = () => {
          const engine = model({ blocks, maxBatchedTokens: 16 }, ROUND);
          const outputs: ModelOutput[] = [];
          let now = 0;
          requests.forEach((r, i) => {
            now += r.gap;
            outputs.push(...engine.advance(now));
            engine.submit(now, request(`r${i}`, ids(r.prompt, r.from), ids(r.output, i)));
            if (r.abortAfter === undefined) return;
            now += r.abortAfter;
            outputs.push(...engine.advance(now));
            engine.abort(now, `r${i}`);
          });
          outputs.push(...drain(engine, now));
          return { engine, outputs };
        };
        const { engine, outputs } = play();
        expect(outputs).toEqual(play().outputs);
        expect(outputs.map((o) => o.at)).toEqual(outputs.map((o) => o.at).sort((a, b) => a - b));
        expect(engine.usedBlocks).toBe(0);
        expect(engine.running + engine.waiting).toBe(0);
        const { stop, length, abort } = engine.counters.finished;
        expect(stop + length + abort).toBe(requests.length);
        expect(netStored(outputs)).toBe(engine.cachedBlocks);
      }),
    );
  });

  it("ships profiles whose numbers are finite and not negative", () => {
    for (const profile of Object.values(PROFILES)) {
      for (const n of [
        profile.stepMs,
        profile.prefillMsPerToken,
        profile.decodeMsPerSequence,
        profile.contextMsPerToken,
      ]) {
        expect(n).toBeGreaterThanOrEqual(0);
      }
    }
  });
});

/** Blocks stored less blocks removed, as a listener counts them. */
function netStored(outputs: readonly ModelOutput[]): number {
  return kv(outputs).reduce((n, e) => n + (e.type === "stored" ? e.names.length : e.type === "removed" ? -1 : 0), 0);
}
