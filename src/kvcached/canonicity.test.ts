import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { SILENT_LOG } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { readModel } from "../modelfiles/read-model.ts";
import { AppliedIndex } from "./applied-index.ts";
import { Canonicity } from "./canonicity.ts";
import { CanonicityDesk } from "./canonicity-desk.ts";
import type { FromThread, ToThread } from "./canonicity-messages.ts";
import { checkingTools } from "./checking-tools.ts";
import { startCanonicityThread } from "./start-canonicity-thread.ts";
import { SMOLLM2 } from "./testing/fixtures.ts";

const files = await readModel({ tokenizer: { dir: SMOLLM2 }, repos: [], env: {} });
const tools = checkingTools(files!);
if ("reason" in tools) throw new Error(tools.reason);
const { encoder, vocabulary } = tools;
const B = 4;
const W = workerId("w");
const INFO = {
  ...{ id: W, kind: "vllm", models: ["m"], epoch: 1, state: "ready", url: "http://127.0.0.1:1" },
  ...{ kv: { type: "events", endpoint: "tcp://127.0.0.1:1", topic: "", dpRank: 0 }, tokenizer: { dir: SMOLLM2 } },
} as unknown as WorkerInfo;
const PROMPT = "<|im_start|>user\nHello there, dear people<|im_end|>\n<|im_start|>assistant\n";
/** " understand" in two tokens, as a hot model may say it. */
const ODD = [...encoder.encode(" under"), ...encoder.encode("stand"), ...encoder.encode(" it, they say")];

/** A check whose desk is here: messages go over when `deliver()` is called. */
function surroundings(maxBacklog?: number, load = async () => tools as typeof tools) {
  const index = new AppliedIndex(createPrefixIndex({ capBytes: 2 ** 24, seed: 1 }));
  const toDesk: ToThread[] = [];
  const toHere: FromThread[] = [];
  const timers: (() => void)[] = [];
  const desk = new CanonicityDesk(load, (message) => toHere.push(message));
  let heard: (message: FromThread) => void = () => {};
  let failed: (reason: string) => void = () => {};
  const canonicity = new Canonicity({
    index,
    clock: {
      now: () => 0,
      wall: () => 0,
      after(_, fn) {
        timers.push(fn);
        return () => void timers.splice(timers.indexOf(fn), 1);
      },
    },
    log: SILENT_LOG,
    start(hearer) {
      heard = hearer.heard;
      failed = hearer.failed;
      return { post: (message) => void toDesk.push(message), close: () => {} };
    },
    changed: () => {},
    ...(maxBacklog === undefined ? {} : { maxBacklog }),
  });
  const deliver = async () => {
    for (const fn of timers.splice(0)) fn();
    for (const message of toDesk.splice(0)) desk.take(structuredClone(message));
    await new Promise((done) => setImmediate(done));
    for (const message of toHere.splice(0)) heard(message);
  };
  const slot = index.addWorker(W);
  canonicity.follow(slot, INFO);
  return { index, canonicity, slot, deliver, fail: (why: string) => failed(why) };
}

type Here = ReturnType<typeof surroundings>;

/** Store ids from the root: the prompt's whole blocks at once, later ones alone. Names are first, first + 1n, … */
function store({ index, slot }: Pick<Here, "index" | "slot">, ids: readonly number[], at: number, first = 1n): void {
  const put = (from: number, to: number) => {
    const tokenIds = Uint32Array.from(ids.slice(from * B, to * B));
    const decoded = vocabulary.decodeBlocks(tokenIds, B)!;
    const names = Array.from({ length: to - from }, (_, i) => first + BigInt(from + i));
    const parent = from === 0 ? undefined : first + BigInt(from - 1);
    index.store(slot, { root: "", parent, names, ...decoded, blockTokens: B, tier: "device" }, tokenIds);
  };
  put(0, at);
  for (let block = at; block < Math.floor(ids.length / B); block++) put(block, block + 1);
}

const held = ({ index }: Pick<Here, "index">, text: string) =>
  index.index.match("", new TextEncoder().encode(`${text}<|im_end|>`))[0]?.blocks ?? 0;

const SAID = [...encoder.encode(PROMPT), ...ODD];
const AT = Math.floor(encoder.encode(PROMPT).length / B);
const TEXT = new TextDecoder().decode(vocabulary.decode(SAID));

describe("Canonicity", () => {
  it("takes blocks out of the count whose tokens their text will not have again", async () => {
    const here = surroundings();
    store(here, SAID, AT);
    const all = held(here, TEXT);
    await here.deliver();
    expect(held(here, TEXT)).toBeLessThan(all);
    expect(held(here, TEXT)).toBeGreaterThanOrEqual(AT);
    expect(here.canonicity.status(here.slot)).toMatchObject({ state: "checking", skippedTokens: 0 });
    expect(here.canonicity.status(here.slot)?.uncountedBlocks).toBeGreaterThan(0);
  });

  it("passes over what is too much at once, and says how much that was", async () => {
    const here = surroundings(B);
    store(here, SAID, AT);
    const passed = SAID.length - (SAID.length % B) - AT * B;
    expect(here.canonicity.status(here.slot)?.skippedTokens).toBe(passed);
    await here.deliver();
    store(here, SAID, AT, 100n);
    expect(here.canonicity.status(here.slot)?.skippedTokens).toBe(2 * passed);
  });

  it("believes what a router sent, but not the answer in it", () => {
    const here = surroundings();
    const long = `<|im_start|>user\n${"Tell me a story. ".repeat(40)}<|im_end|>\n<|im_start|>assistant\n`;
    here.canonicity.sent(here.slot, new TextEncoder().encode(long));
    const ids = encoder.encode(long);
    store(here, ids, Math.floor(ids.length / B));
    expect(here.canonicity.status(here.slot)?.sentTokens).toBe(ids.length - (ids.length % B));
  });

  it("stops checking when prompts themselves do not look canonical, and takes its verdicts back", async () => {
    const here = surroundings();
    for (let i = 0; i < 12; i++) store(here, SAID, Math.floor(SAID.length / B), BigInt(1000 * i + 1));
    expect(held(here, TEXT)).toBe(Math.floor(SAID.length / B));
    await here.deliver();
    expect(here.canonicity.status(here.slot)?.state).toBe("off");
    expect(here.canonicity.evidence(here.slot).unfit).toMatch(/tokenises prompts otherwise/);
    expect(held(here, TEXT)).toBe(Math.floor(SAID.length / B));
  });

  it("says why nothing is checked: no tokenizer, any text its own tokens, a thread that ended", async () => {
    const none = surroundings(undefined, () => Promise.reject(new Error("there is no such folder")));
    store(none, SAID, AT);
    await none.deliver();
    expect(none.canonicity.status(none.slot)).toMatchObject({ state: "off", detail: "there is no such folder" });
    const here = surroundings();
    const slot = here.index.addWorker(W);
    here.canonicity.follow(slot, { ...INFO, tokenizer: { bytes: true } });
    expect(here.canonicity.status(slot)).toMatchObject({ state: "off", detail: expect.stringMatching(/any text/) });
    here.fail("out of memory");
    expect(here.canonicity.status(here.slot)).toMatchObject({
      state: "off",
      detail: expect.stringMatching(/out of memory/),
    });
    const later = here.index.addWorker(W);
    here.canonicity.follow(later, INFO);
    expect(here.canonicity.status(later)?.state).toBe("off");
  });

  it("forgets a worker that was dropped, and what one held that was cleared", async () => {
    const here = surroundings();
    store(here, SAID, AT);
    here.index.clearWorker(here.slot);
    store(here, encoder.encode(TEXT), AT);
    await here.deliver();
    expect(held(here, TEXT)).toBe(Math.floor(encoder.encode(TEXT).length / B));
    here.index.dropWorker(here.slot);
    expect(here.canonicity.status(here.slot)).toBeUndefined();
    await here.deliver();
  });
});

describe("startCanonicityThread", () => {
  it("checks in a thread of its own", async () => {
    const heard: FromThread[] = [];
    const { promise: done, resolve, reject } = Promise.withResolvers<void>();
    const link = startCanonicityThread(
      {},
      {
        heard(message) {
          heard.push(message);
          if (message.type === "verdict") resolve();
        },
        failed: (why) => reject(new Error(why)),
      },
    );
    link.post({ type: "follow", slot: 7, model: { tokenizer: { dir: SMOLLM2 }, repos: [] } });
    const chain = {
      ...{ parent: undefined, names: BigUint64Array.of(1n), certain: false, blockTokens: SAID.length },
      tokenIds: Uint32Array.from(SAID),
    };
    link.post({ type: "stored", slot: 7, chains: [chain] });
    await done;
    link.close();
    expect(heard[0]).toEqual({ type: "ready", slot: 7, reason: undefined });
    expect(heard[1]).toMatchObject({ type: "verdict", slot: 7, uncounted: BigUint64Array.of(1n), taken: SAID.length });
  });
});
