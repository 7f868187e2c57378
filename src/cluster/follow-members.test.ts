import { describe, expect, it } from "vitest";
import { followMembers } from "./follow-members.ts";
import { sampleMember } from "./membership.case.ts";
import { createMemoryMembership } from "./memory-membership.ts";

function followed() {
  const membership = createMemoryMembership([sampleMember("a")]);
  const log: string[] = [];
  const live = new Set<string>();
  let due: (() => void)[] = [];
  const clock = {
    now: () => 0,
    wall: () => 0,
    after(_ms: number, fn: () => void) {
      due.push(fn);
      return () => void (due = due.filter((each) => each !== fn));
    },
  };
  const members = followMembers({
    membership,
    kind: "agent",
    clock,
    open({ id, url }) {
      log.push(`open ${id} ${url}`);
      live.add(id);
      return { isLive: () => live.has(id), close: () => void log.push(`close ${id}`) };
    },
  });
  const look = () => {
    for (const fn of due.splice(0)) fn();
  };
  return { membership, members, log, live, look };
}

describe("followMembers()", () => {
  it("opens who is there and who comes, and nobody of another kind", () => {
    const { membership, members, log } = followed();
    membership.announce(sampleMember("r", { kind: "router" }));
    membership.announce(sampleMember("b"));
    membership.announce(sampleMember("b", { epoch: 2 }));
    expect(log).toEqual(["open a http://a:7070", "open b http://b:7070"]);
    expect(members.all().map(({ member }) => [member.id, member.epoch])).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
    members.close();
    expect(log.slice(2)).toEqual(["close a", "close b"]);
  });

  it("follows one that left the list until its own connection is gone too", () => {
    const { membership, members, log, live, look } = followed();
    membership.replaceAll([]);
    look();
    expect(log).toEqual(["open a http://a:7070"]);
    expect(members.all()).toHaveLength(1);
    live.delete("a");
    look();
    expect(log.at(-1)).toBe("close a");
    expect(members.all()).toEqual([]);
    look();
    expect(log).toHaveLength(2);
  });

  it("follows one that came back on, and opens one anew that moved", () => {
    const { membership, members, log, live, look } = followed();
    membership.replaceAll([]);
    membership.replaceAll([sampleMember("a")]);
    live.delete("a");
    look();
    expect(log).toEqual(["open a http://a:7070"]);
    membership.replaceAll([sampleMember("a", { url: "http://new:1" })]);
    expect(log.slice(1)).toEqual(["close a", "open a http://new:1"]);
    members.close();
    membership.replaceAll([sampleMember("c")]);
    expect(log.at(-1)).toBe("close a");
  });
});
