import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { KvNote } from "../wire/kv-note.ts";
import { NoteQueue } from "./note-queue.ts";

const BYTES = new Uint8Array(9 * 2 ** 20);
const note = (n: number, bytes = 1): KvNote => ({
  type: "sent",
  worker: workerId("w"),
  query: { model: String(n), root: "", prompt: BYTES.subarray(0, bytes) },
});
const numberOf = (note: KvNote): number => (note.type === "observed" ? -1 : Number(note.query.model));

/** A queue whose calls end when the test says so. */
function setUp() {
  const calls: { readonly notes: readonly number[]; end(heard: boolean): Promise<void> }[] = [];
  const queue = new NoteQueue((notes) => {
    let end = (_heard: boolean) => {};
    const ended = new Promise<void>((resolve, reject) => {
      end = (heard) => (heard ? resolve() : reject(new Error("cut")));
    });
    calls.push({
      notes: notes.map(numberOf),
      async end(heard) {
        end(heard);
        for (let i = 0; i < 5; i++) await Promise.resolve();
      },
    });
    return ended;
  });
  return { queue, calls };
}

describe("NoteQueue", () => {
  it("tells another run what was on its way to the one that died, before what came later", async () => {
    const { queue, calls } = setUp();
    queue.opened("a");
    queue.push(note(1));
    queue.push(note(2));
    expect(calls.map(({ notes }) => notes)).toEqual([[1]]);
    queue.closed();
    await calls[0]?.end(false);
    expect(queue.size).toBe(2);
    queue.opened("b");
    expect(calls[1]?.notes).toEqual([1, 2]);
    await calls[1]?.end(true);
    expect([queue.size, queue.dropped]).toEqual([0, 0]);
  });

  it("does not tell the same run twice what it may have heard", async () => {
    const { queue, calls } = setUp();
    queue.opened("a");
    queue.push(note(1));
    queue.push(note(2));
    queue.closed();
    await calls[0]?.end(false);
    queue.opened("a");
    expect(calls[1]?.notes).toEqual([2]);
    expect(queue.dropped).toBe(1);
  });

  it("tells another run a call that fails only after that one is there", async () => {
    const { queue, calls } = setUp();
    queue.opened("a");
    queue.push(note(1));
    queue.closed();
    queue.opened("b");
    queue.push(note(2));
    await calls[0]?.end(false);
    expect(calls[1]?.notes).toEqual([1, 2]);
  });

  it("is bounded in notes and bytes whatever happens, and counts each note once", async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ do: fc.constant("push" as const), mib: fc.nat(9) }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant("end" as const), heard: fc.boolean() }) },
      fc.record({ do: fc.constant("open" as const), instance: fc.constantFrom("a", "b", "c") }),
      fc.record({ do: fc.constant("close" as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { queue, calls } = setUp();
        let [pushed, ended, heard] = [0, 0, 0];
        for (const each of steps) {
          if (each.do === "push") queue.push(note(pushed++, each.mib * 2 ** 20));
          else if (each.do === "open") queue.opened(each.instance);
          else if (each.do === "close") queue.closed();
          else if (ended < calls.length) {
            const call = calls[ended++]!;
            if (each.heard) heard += call.notes.length;
            await call.end(each.heard);
          }
          expect(queue.size + queue.dropped + heard).toBe(pushed);
          // 32 MiB wait at most, and a call of 4 MiB and a note is on its way.
          expect(queue.size).toBeLessThanOrEqual(4_096 + 256);
        }
      }),
      { numRuns: 200 },
    );
  });
});
