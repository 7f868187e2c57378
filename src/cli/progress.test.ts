import { describe, expect, it } from "vitest";
import { startProgress } from "./progress.ts";

function output(terminal: boolean) {
  const seen: string[] = [];
  let now = 0;
  return {
    seen,
    wait: (ms: number) => void (now += ms),
    target: {
      terminal,
      columns: 200,
      now: () => now,
      line: {
        draw: (text: string) => void seen.push(`draw ${text}`),
        end: () => void seen.push("end"),
        print: (text: string) => void seen.push(`print ${text.trimEnd()}`),
      },
    },
  };
}

describe("startProgress()", () => {
  it("draws one line on a terminal, at most five times a second, and leaves the last one", () => {
    const { seen, wait, target } = output(true);
    const bar = startProgress("engine", target);
    bar.update(0.1, "a");
    bar.update(0.2, "b");
    wait(300);
    bar.update(0.5, "c\r\nd");
    bar.done("1 of 1 ready");
    expect(seen.map((text) => text.replace(/\[.*\]/, "[]").replace(/ +/g, " "))).toEqual([
      "draw engine [] 10 % 0.0 s a",
      "draw engine [] 50 % 0.3 s c d",
      "draw engine [] 100 % 0.3 s 1 of 1 ready",
      "end",
    ]);
  });

  it("says start and end elsewhere", () => {
    const { seen, target } = output(false);
    const bar = startProgress("engine", target);
    bar.update(0.5, "c");
    bar.done("1 of 1 ready");
    expect(seen).toEqual(["print engine …", "print engine: 1 of 1 ready, 0.0 s"]);
  });
});
