import { describe, expect, it } from "vitest";
import { StalledLooks } from "./stalled-clients.ts";

function socket(bytesWritten: number, writableLength: number) {
  const s = { bytesWritten, writableLength, cut: false, destroy: () => (s.cut = true) as never };
  return s;
}

describe("StalledLooks", () => {
  it("cuts who took nothing for as many looks, and nobody who takes slowly or has nothing to take", () => {
    const stalled = socket(1_000, 600);
    const slow = socket(1_000, 600);
    const idle = socket(1_000, 0);
    const looks = new StalledLooks(new Set([stalled, slow, idle]));
    for (let i = 0; i < 3; i++) {
      looks.look(3);
      slow.writableLength -= 1;
    }
    expect([stalled.cut, slow.cut, idle.cut]).toEqual([false, false, false]);
    looks.look(3);
    expect([stalled.cut, slow.cut, idle.cut]).toEqual([true, false, false]);
  });

  it("sees how much of one large write the system has taken", () => {
    const s = { ...socket(1_000, 1_000), _handle: { writeQueueSize: 1_000 } };
    const looks = new StalledLooks(new Set([s]));
    for (let i = 0; i < 5; i++) {
      looks.look(2);
      s._handle.writeQueueSize -= 10;
    }
    expect(s.cut).toBe(false);
  });

  it("counts anew after everything was taken", () => {
    const s = socket(1_000, 600);
    const looks = new StalledLooks(new Set([s]));
    looks.look(2);
    looks.look(2);
    s.writableLength = 0;
    looks.look(2);
    s.writableLength = 600;
    looks.look(2);
    looks.look(2);
    expect(s.cut).toBe(false);
    looks.look(2);
    expect(s.cut).toBe(true);
  });
});
