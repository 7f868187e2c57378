import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import { memberKey } from "../core/membership.ts";
import { keepMarks } from "./kept-marks.ts";
import { runMembershipCases, sampleMember } from "./membership.case.ts";
import { createMemoryMembership } from "./memory-membership.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-marks-"));
afterAll(() => rmSync(dir, { recursive: true }));
const freshFile = (): string => join(dir, String(Math.random()), "marks.json");

describe("keepMarks()", () => {
  runMembershipCases("kept marks", () => {
    const inner = createMemoryMembership();
    const membership = keepMarks(inner, freshFile(), SILENT_LOG);
    const withdraw = new Map<string, () => Promise<void>>();
    return {
      membership,
      put: (member) => void withdraw.set(memberKey(member), inner.announce(member)),
      take: (member) => withdraw.get(memberKey(member))?.(),
      mark: (node, mark) => membership.mark(node, mark),
    };
  });

  it("has its marks again after a restart, beside those of the source", async () => {
    const file = freshFile();
    const inner = createMemoryMembership([sampleMember("a")]);
    await inner.mark("theirs", "draining");
    await keepMarks(inner, file, SILENT_LOG).mark("a", "cordoned");
    const told: unknown[] = [];
    const again = keepMarks(inner, file, { ...SILENT_LOG, warn: (_, fields) => void told.push(fields) });
    expect(told).toEqual([{ nodes: "a cordoned" }]);
    expect(Object.fromEntries(again.marks())).toEqual({ a: "cordoned", theirs: "draining" });
    await again.mark("theirs", undefined);
    await again.mark("a", undefined);
    expect(again.marks().size).toBe(0);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({});
  });

  it("takes a file that is damaged for an empty one, and does not mark what it cannot keep", async () => {
    const file = freshFile();
    const inner = createMemoryMembership();
    await keepMarks(inner, file, SILENT_LOG).mark("a", "cordoned");
    writeFileSync(file, "{");
    expect(keepMarks(inner, file, SILENT_LOG).marks().size).toBe(0);
    const unusable = keepMarks(inner, join(file, "below", "marks.json"), SILENT_LOG);
    await expect(unusable.mark("a", "cordoned")).rejects.toMatchObject({ code: "STORAGE_UNUSABLE" });
    expect(unusable.marks().size).toBe(0);
  });
});
