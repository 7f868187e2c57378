import { expect, it } from "vitest";
import { nodeId } from "../core/ids.ts";
import type { Member, Membership, NodeMark } from "../core/membership.ts";

/** A member for tests; `over` replaces fields. */
export function sampleMember(id: string, over: Partial<Member> = {}): Member {
  return { kind: "agent", id, node: nodeId(id), url: `http://${id}:7070`, epoch: 1, ...over };
}

/** A membership under test, and others who write to the same source. */
export interface MembershipUnderTest {
  readonly membership: Membership;
  /** Another process is there, as this member. */
  put(member: Member): void | Promise<void>;
  /** That one is gone, in order. */
  take(member: Member): void | Promise<void>;
  /** Somebody marks a node. */
  mark(node: string, mark: NodeMark | undefined): void | Promise<void>;
}

/** Resolves once `isSo` after a change; asks at once too. */
export async function eventually(membership: Membership, isSo: () => boolean, ms = 10_000): Promise<void> {
  let leave = (): void => {};
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      const ask = () => isSo() && resolve();
      leave = membership.subscribe(ask);
      timer = setTimeout(
        () => reject(new Error(`not within ${ms} ms: ${JSON.stringify([membership.list(), membership.health()])}`)),
        ms,
      );
      ask();
    });
  } finally {
    clearTimeout(timer);
    leave();
  }
}

const ids = (membership: Membership): string =>
  membership
    .list()
    .map(({ kind, id }) => `${kind}/${id}`)
    .join(" ");

/** The rules of `Membership` that every implementation keeps. `make` gives one without members. */
export function runMembershipCases(name: string, make: () => Promise<MembershipUnderTest> | MembershipUnderTest): void {
  it(`${name} lists each member once, by kind and id`, async () => {
    const { membership, put } = await make();
    expect(membership.list()).toEqual([]);
    await put(sampleMember("b"));
    await put(sampleMember("r", { kind: "router" }));
    await put(sampleMember("a"));
    await put(sampleMember("a", { kind: "kvcached" }));
    await eventually(membership, () => membership.list().length === 4);
    expect(ids(membership)).toBe("agent/a agent/b kvcached/a router/r");
    expect(membership.list()[0]).toEqual(sampleMember("a"));
    expect(membership.health()).toMatchObject({ ok: true, reason: "" });
  });

  it(`${name} takes off who left, and lists one that came anew as it is now`, async () => {
    const { membership, put, take } = await make();
    await put(sampleMember("a", { labels: { zone: "z1" } }));
    await put(sampleMember("b"));
    await eventually(membership, () => membership.list().length === 2);
    await take(sampleMember("b"));
    await eventually(membership, () => ids(membership) === "agent/a");
    await put(sampleMember("a", { url: "https://other:7070", epoch: 2 }));
    await eventually(membership, () => membership.list()[0]?.epoch === 2);
    expect(membership.list()).toEqual([sampleMember("a", { url: "https://other:7070", epoch: 2 })]);
  });

  it(`${name} keeps a list that was handed out as it was, and the same one until something changes`, async () => {
    const { membership, put } = await make();
    await put(sampleMember("a"));
    await eventually(membership, () => membership.list().length === 1);
    const before = membership.list();
    expect(membership.list()).toBe(before);
    await put(sampleMember("b"));
    await eventually(membership, () => membership.list().length === 2);
    expect(before.map(({ id }) => id)).toEqual(["a"]);
  });

  it(`${name} keeps marks of nodes, also of one that is not there`, async () => {
    const { membership, put, mark } = await make();
    await put(sampleMember("a"));
    await mark("a", "cordoned");
    await mark("not there", "draining");
    await eventually(membership, () => membership.marks().size === 2);
    expect([...membership.marks()].sort()).toEqual([
      ["a", "cordoned"],
      ["not there", "draining"],
    ]);
    await mark("a", "draining");
    await eventually(membership, () => membership.marks().get("a") === "draining");
    await mark("a", undefined);
    await eventually(membership, () => !membership.marks().has("a"));
    expect([...membership.marks().keys()]).toEqual(["not there"]);
    expect(ids(membership)).toBe("agent/a");
  });

  it(`${name} stops calling a listener that left, also in the middle of a round`, async () => {
    const { membership, put } = await make();
    const told: string[] = [];
    const leaveSecond: (() => void)[] = [];
    membership.subscribe(() => {
      told.push("first");
      leaveSecond[0]?.();
    });
    leaveSecond.push(membership.subscribe(() => told.push("second")));
    expect(told).toEqual([]);
    await put(sampleMember("a"));
    await eventually(membership, () => membership.list().length === 1);
    expect(told).toEqual(["first"]);
  });
}
