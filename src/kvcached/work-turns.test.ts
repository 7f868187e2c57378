import { describe, expect, it } from "vitest";
import { WorkTurns } from "./work-turns.ts";

const loop = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("WorkTurns", () => {
  it("gives all that share it one slice a turn of the event loop, in the order in which they ask", async () => {
    let now = 0;
    const turns = new WorkTurns({ now: () => now });
    let perTurn = 0;
    const worked: number[] = [];
    const job = async (id: number) => {
      for (let done = 0; done < 3; done++) {
        while (!turns.hasTime()) await turns.next();
        // A piece of 4 ms: the second one in a turn is the last.
        now += 4;
        perTurn += 4;
        worked.push(id);
      }
    };
    const jobs = Promise.all([job(1), job(2), job(3)]);
    const turnsTaken: number[] = [];
    for (let i = 0; i < 12; i++) {
      turnsTaken.push(perTurn);
      perTurn = 0;
      await loop();
    }
    await jobs;
    expect(Math.max(...turnsTaken, perTurn)).toBe(8);
    expect(worked).toEqual([1, 1, 1, 2, 2, 3, 3, 2, 3]);
  });

  it("begins anew in each turn, and next() waits for a later one", async () => {
    let now = 0;
    const turns = new WorkTurns({ now: () => now });
    expect(turns.hasTime()).toBe(true);
    now += 6;
    expect(turns.hasTime()).toBe(false);
    await loop();
    expect(turns.hasTime()).toBe(true);
    let came = 0;
    void turns.next().then(() => came++);
    void turns.next().then(() => came++);
    await Promise.resolve();
    expect(came).toBe(0);
    for (let i = 0; i < 6; i++) await loop();
    expect(came).toBe(2);
  });
});
