import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { CgnError } from "../core/errors.ts";
import { SILENT_LOG } from "../core/log.ts";
import { type Member, memberKey, type NodeMark } from "../core/membership.ts";
import { runMembershipCases, sampleMember } from "./membership.case.ts";
import { createMemoryMembership } from "./memory-membership.ts";
import { type MemberFile, openStaticMembership } from "./static-membership.ts";

describe("createMemoryMembership()", () => {
  runMembershipCases("memory", () => {
    const membership = createMemoryMembership();
    const withdraw = new Map<string, () => Promise<void>>();
    return {
      membership,
      put: (member) => void withdraw.set(memberKey(member), membership.announce(member)),
      take: (member) => withdraw.get(memberKey(member))?.(),
      mark: (node, mark) => membership.mark(node, mark),
    };
  });

  it("announce() takes nothing back of the process that took its place", async () => {
    const membership = createMemoryMembership();
    const withdraw = membership.announce(sampleMember("a"));
    membership.announce(sampleMember("a", { epoch: 2 }));
    await withdraw();
    expect(membership.list()).toEqual([sampleMember("a", { epoch: 2 })]);
  });
});

const dir = mkdtempSync(join(tmpdir(), "cgn-members-"));
afterAll(() => rmSync(dir, { recursive: true }));

/** The file as JSON, and a clock whose timers run when the test says so. */
function fileUnderTest() {
  const file = join(dir, `${Math.random()}.json`);
  let content: { members: Member[]; marks: Record<string, NodeMark> } = { members: [], marks: {} };
  let waiting = new Set<() => void>();
  const clock = {
    now: () => 0,
    wall: () => 0,
    after(_ms: number, fn: () => void) {
      waiting.add(fn);
      return () => waiting.delete(fn);
    },
  };
  const save = (text = JSON.stringify(content)): void => {
    writeFileSync(file, text);
    const due = waiting;
    waiting = new Set();
    for (const fn of due) fn();
  };
  const parse = (text: string): MemberFile => {
    if (!text.startsWith("{")) {
      throw new CgnError("CONFIG_INVALID", `Cannot read ${file}:1:1: it is none. Mend it`, { problems: [] });
    }
    const { members, marks } = JSON.parse(text) as typeof content;
    return { members, marks: new Map(Object.entries(marks)) };
  };
  save();
  const membership = openStaticMembership({ file, parse, clock, log: SILENT_LOG });
  const change = (next: Partial<typeof content>): void => {
    content = { ...content, ...next };
    save();
  };
  return { membership, save, change, content: () => content };
}

describe("openStaticMembership()", () => {
  const opened: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of opened.splice(0)) await each.close();
  });

  runMembershipCases("static", () => {
    const { membership, change, content } = fileUnderTest();
    opened.push(membership);
    const without = (member: Member) => content().members.filter((each) => memberKey(each) !== memberKey(member));
    return {
      membership,
      put: (member) => change({ members: [...without(member), member] }),
      take: (member) => change({ members: without(member) }),
      mark: (node, mark) => {
        const { [node]: _, ...marks } = content().marks;
        change({ marks: mark === undefined ? marks : { ...marks, [node]: mark } });
      },
    };
  });

  it("keeps the list while the file is wrong, says where, and goes on once it is right", () => {
    const { membership, change, save } = fileUnderTest();
    opened.push(membership);
    change({ members: [sampleMember("a")] });
    let told = 0;
    membership.subscribe(() => told++);
    save("[members");
    expect(membership.list()).toEqual([sampleMember("a")]);
    expect(membership.health()).toMatchObject({ ok: false, reason: expect.stringContaining(":1:1") });
    change({ members: [sampleMember("b")] });
    expect(membership.list()).toEqual([sampleMember("b")]);
    expect(membership.health()).toMatchObject({ ok: true, reason: "" });
    expect(told).toBe(2);
  });

  it("mark() refuses with the line that would do it", async () => {
    const { membership } = fileUnderTest();
    opened.push(membership);
    await expect(membership.mark("a", "cordoned")).rejects.toMatchObject({ code: "NOT_SUPPORTED" });
    expect(membership.marks().size).toBe(0);
  });
});
