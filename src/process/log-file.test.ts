import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FileFollower, followFile } from "./file-follow.ts";
import { openLogFile } from "./log-file.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-log-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("openLogFile()", () => {
  it("keeps as many files of the size as it may, and loses no order", async () => {
    const path = join(dir, "deep", "e.log");
    const log = openLogFile({ path, bounds: { fileBytes: 1_000, files: 3 }, now: () => 0 });
    for (let i = 0; i < 1_000; i++) log.write(bytes(`line ${i}\n`));
    await log.close();
    const files = [`${path}.2`, `${path}.1`, path];
    for (const file of files) expect(statSync(file).size).toBeLessThanOrEqual(1_000);
    expect(existsSync(`${path}.3`)).toBe(false);
    const lines = files
      .map((file) => readFileSync(file, "utf8"))
      .join("")
      .split("\n");
    expect(lines.at(-2)).toBe("line 999");
    const numbers = lines.slice(1, -1).map((line) => Number(line.split(" ")[1]));
    expect(numbers).toEqual(numbers.map((_, i) => (numbers[0] ?? 0) + i));
  });

  it("goes on with what an earlier process wrote", async () => {
    const path = join(dir, "e.log");
    for (const text of ["first\n", "second\n"]) {
      const log = openLogFile({ path, bounds: { fileBytes: 5_000, files: 2 }, now: () => 0 });
      log.write(bytes(text));
      await log.close();
    }
    expect(readFileSync(path, "utf8")).toBe("first\nsecond\n");
  });

  it.runIf(existsSync("/dev/full"))("drops lines and says so once while the disk is full", async () => {
    let now = 0;
    const troubles: string[] = [];
    const log = openLogFile({
      path: "/dev/full",
      bounds: { fileBytes: 500, files: 2 },
      now: () => now,
      onTrouble: (error) => void troubles.push(error.message),
    });
    for (const at of [0, 1_000, 2_000]) {
      now = at;
      log.write(bytes("0123456789"));
      await log.close();
    }
    expect(troubles).toEqual([expect.stringContaining("ENOSPC")]);
    expect(log.droppedBytes).toBe(30);
  });
});

describe("followFile()", () => {
  it("reads on over a rotation, and waits for a file that is not there", async () => {
    const path = join(dir, "e.log");
    const end = new AbortController();
    let text = "";
    const following = followFile(path, {
      signal: end.signal,
      everyMs: 5,
      onChunk: (chunk) => {
        text += new TextDecoder().decode(chunk);
      },
    });
    const log = openLogFile({ path, bounds: { fileBytes: 30, files: 9 }, now: () => 0 });
    let wanted = "";
    for (let i = 0; i < 5; i++) {
      const line = `a line of the log ${i}\n`;
      wanted += line;
      log.write(bytes(line));
      for (let n = 0; n < 100 && text !== wanted; n++) await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(text).toBe(wanted);
    end.abort();
    await Promise.all([following, log.close()]);
  });
});

describe("FileFollower", () => {
  it("poll() loses nothing when the file was rotated several times since", async () => {
    // Broke: the rest of the file that was read, and whole files after it, were never shown.
    const path = join(dir, "e.log");
    const log = openLogFile({ path, bounds: { fileBytes: 40, files: 9 }, now: () => 0 });
    let text = "";
    const follower = new FileFollower(path, { fromEnd: 0 }, (chunk) => (text += new TextDecoder().decode(chunk)));
    await follower.poll();
    let wanted = "";
    for (const burst of [1, 7, 2, 11]) {
      for (let i = 0; i < burst; i++) {
        wanted += `line ${i} of ${burst}\n`;
        log.write(bytes(`line ${i} of ${burst}\n`));
      }
      await log.close();
      await follower.poll();
      expect(text).toBe(wanted);
    }
    await follower.close();
  });

  it("poll() reads on after copy and truncation, from the copy first", async () => {
    const path = join(dir, "e.log");
    let text = "";
    writeFileSync(path, "one\n");
    const follower = new FileFollower(path, { at: 0 }, (chunk) => (text += new TextDecoder().decode(chunk)));
    await follower.poll();
    writeFileSync(`${path}.1`, "one\ntwo\n");
    writeFileSync(path, "3\n");
    await follower.poll();
    expect(text).toBe("one\ntwo\n3\n");
    await follower.close();
  });
});
