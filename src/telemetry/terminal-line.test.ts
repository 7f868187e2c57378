import { describe, expect, it } from "vitest";
import { createTerminalLine } from "./terminal-line.ts";

/** What a terminal shows after these writes; the last line is the one that the cursor is on. */
function screen(written: string): string[] {
  const lines = [""];
  for (const [i, part] of written.split("\n").entries()) {
    // What stood on the line before it was cleared is gone.
    const last = part.split("\r\x1b[2K").at(-1) ?? "";
    if (i === 0) lines[0] = last;
    else lines.push(last);
  }
  return lines;
}

describe("createTerminalLine()", () => {
  it("print() takes a bar away, and the bar stands below what was printed", () => {
    // Broke: log lines were written into the progress bar's line.
    let written = "";
    const line = createTerminalLine((text) => void (written += text));
    line.print("before\n");
    line.draw("[#--]");
    line.print("engine starting\n");
    expect(screen(written)).toEqual(["before", "engine starting", "[#--]"]);
    line.draw("[##-]");
    line.print("one\ntwo\n");
    expect(screen(written)).toEqual(["before", "engine starting", "one", "two", "[##-]"]);
    line.draw("[###]");
    line.end();
    line.print("after\n");
    expect(screen(written).slice(-3)).toEqual(["[###]", "after", ""]);
  });

  it("end() without a bar writes nothing", () => {
    let written = "";
    createTerminalLine((text) => void (written += text)).end();
    expect(written).toBe("");
  });
});
