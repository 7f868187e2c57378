import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { EtcdClient } from "../../src/cluster/etcd-client.ts";
import { openEtcdMembership } from "../../src/cluster/etcd-membership.ts";
import { eventually, runMembershipCases, sampleMember } from "../../src/cluster/membership.case.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { type Membership, memberKey } from "../../src/core/membership.ts";
import { realClock } from "../../src/router/testing/test-router.ts";
import { testAuthority } from "../../src/wire/testing/certificates.ts";
import { freePorts, until } from "../helpers/cgn-process.ts";
import { askEtcd, EtcdProcess, startEtcd, whyNoEtcd } from "../helpers/etcd.ts";

const missing = whyNoEtcd();
if (missing !== undefined) console.log(`skipped: membership in etcd (${missing})`);

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

let names = 0;
const freshName = (): string => `c${++names}`;

/** Where nothing answers yet, it is tried again: etcd is a moment old. */
async function join_(
  endpoints: readonly string[],
  cluster: string,
  more: Partial<ConstructorParameters<typeof EtcdClient>[0]> & { ttlS?: number } = {},
): Promise<Membership> {
  const { ttlS = 2, ...rest } = more;
  const membership = await until("etcd", 20_000, async () => {
    const client = new EtcdClient({ endpoints, clock: realClock, timeoutMs: 1_000, ...rest });
    try {
      return await openEtcdMembership({ client, cluster, ttlS, clock: realClock, log: SILENT_LOG });
    } catch (error) {
      if (/certificate|user|authentication/.test(String(error))) throw error;
      return undefined;
    }
  });
  opened.push(membership);
  return membership;
}

const ids = (membership: Membership): string =>
  membership
    .list()
    .map(({ id }) => id)
    .join(" ");

describe.skipIf(missing !== undefined)("membership in etcd", () => {
  let etcd: EtcdProcess;

  beforeAll(async () => {
    etcd = await startEtcd();
  }, 30_000);
  afterAll(() => etcd.dispose());

  runMembershipCases("etcd", async () => {
    const cluster = freshName();
    const membership = await join_([etcd.url], cluster);
    const other = await join_([etcd.url], cluster);
    const withdraw = new Map<string, () => Promise<void>>();
    return {
      membership,
      put: (member) => void withdraw.set(memberKey(member), other.announce(member)),
      take: (member) => withdraw.get(memberKey(member))?.(),
      mark: (node, mark) => other.mark(node, mark),
    };
  });

  it("takes off who died without a word once its lease is over, and not before", async () => {
    const cluster = freshName();
    const membership = await join_([etcd.url], cluster);
    const other = await join_([etcd.url], cluster);
    other.announce(sampleMember("a"));
    await eventually(membership, () => ids(membership) === "a");
    const before = performance.now();
    await other.close();
    await eventually(membership, () => ids(membership) === "");
    expect(performance.now() - before).toBeGreaterThan(1_000);
  });

  it("announces itself again when its key or its lease is gone", async () => {
    const cluster = freshName();
    const membership = await join_([etcd.url], cluster);
    const other = await join_([etcd.url], cluster);
    other.announce(sampleMember("a"));
    await eventually(membership, () => ids(membership) === "a");
    const key = Buffer.from(`/cgn/${cluster}/members/agent/a`).toString("base64");
    await askEtcd(etcd.url, "kv/deleterange", { key });
    await eventually(membership, () => ids(membership) === "");
    await eventually(membership, () => ids(membership) === "a");
    const { kvs } = (await askEtcd(etcd.url, "kv/range", { key })) as { kvs: { lease: string }[] };
    await askEtcd(etcd.url, "lease/revoke", { ID: kvs[0]?.lease });
    await until("a new lease", 10_000, async () => {
      const now = (await askEtcd(etcd.url, "kv/range", { key })) as { kvs?: { lease: string }[] };
      return now.kvs?.[0]?.lease !== undefined && now.kvs[0].lease !== kvs[0]?.lease ? true : undefined;
    });
    await eventually(membership, () => ids(membership) === "a");
  });

  it("keeps settings that all share, changes several at once, and tells those who come later", async () => {
    const cluster = freshName();
    const one = await join_([etcd.url], cluster);
    const two = await join_([etcd.url], cluster);
    const values = (membership: Membership): object => Object.fromEntries(membership.shared?.values() ?? []);
    const before = two.list();
    const first = new Map([
      ["router.policy", "weighted"],
      ["router.score_weights.kv", "0.5"],
    ]);
    await one.shared?.change(first);
    expect(values(one)).toEqual(Object.fromEntries(first));
    await eventually(two, () => two.shared?.values().size === 2);
    expect(two.list()).toBe(before);
    await two.shared?.change(
      new Map([
        ["router.policy", undefined],
        ["router.score_weights.kv", "0.6"],
      ]),
    );
    await eventually(one, () => one.shared?.values().size === 1);
    const later = await join_([etcd.url], cluster);
    expect([one, two, later].map(values)).toEqual(Array(3).fill({ "router.score_weights.kv": "0.6" }));
    expect(later.marks().size).toBe(0);
  });

  it("does not let clusters of different names meet, and leaves keys alone that it does not understand", async () => {
    const cluster = freshName();
    const one = await join_([etcd.url], cluster);
    const two = await join_([etcd.url], `${cluster}x`);
    two.announce(sampleMember("theirs"));
    await eventually(two, () => ids(two) === "theirs");
    const put = (key: string, value: string) =>
      askEtcd(etcd.url, "kv/put", {
        key: Buffer.from(`/cgn/${cluster}/${key}`).toString("base64"),
        value: Buffer.from(value).toString("base64"),
      });
    await put("members/agent/broken", "{");
    await put("members/agent/other-name", JSON.stringify(sampleMember("a")));
    await put("members/agent/no-url", JSON.stringify(sampleMember("no-url", { url: "ftp://x" })));
    await put("later/things", "1");
    one.announce(sampleMember("ours"));
    await eventually(one, () => ids(one) === "ours");
  });
});

describe.skipIf(missing !== undefined)("membership while etcd is away", () => {
  let etcd: EtcdProcess;
  beforeAll(async () => {
    etcd = await startEtcd();
  }, 30_000);
  afterAll(() => etcd.dispose());

  it("keeps who is known, says so, and hears what happened meanwhile", async () => {
    const cluster = freshName();
    const membership = await join_([etcd.url], cluster);
    const other = await join_([etcd.url], cluster);
    other.announce(sampleMember("a"));
    const withdraw = other.announce(sampleMember("b"));
    await eventually(membership, () => ids(membership) === "a b");
    await membership.shared?.change(new Map([["router.policy", "weighted"]]));
    await etcd.kill();
    await eventually(membership, () => !membership.health().ok);
    const refusal = (message: RegExp) => ({
      code: "DEPENDENCY_UNREACHABLE",
      message: expect.stringMatching(message),
    });
    await expect(membership.mark("a", "cordoned")).rejects.toMatchObject(
      refusal(/^Cannot mark "a": etcd at http.* is lost \(.+\)\. Ask again when it is back; .*stopping its agent$/),
    );
    await expect(membership.mark("a", undefined)).rejects.toMatchObject(refusal(/^Cannot take the mark off "a": etcd/));
    const more = new Map([["router.policy", "random"]]);
    await expect(membership.shared?.change(more)).rejects.toMatchObject(
      refusal(/^Cannot share settings: etcd .* is lost .* until then the last ones hold$/),
    );
    expect(Object.fromEntries(membership.shared?.values() ?? [])).toEqual({ "router.policy": "weighted" });
    // Longer than a lease.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(ids(membership)).toBe("a b");
    etcd.start();
    await eventually(membership, () => membership.health().ok);
    await eventually(other, () => other.health().ok);
    expect(ids(membership)).toBe("a b");
    await withdraw();
    await eventually(membership, () => ids(membership) === "a");
  }, 40_000);

  it("goes on where etcd has forgotten its place (compaction)", async () => {
    const cluster = freshName();
    const membership = await join_([etcd.url], cluster);
    const other = await join_([etcd.url], cluster);
    await etcd.kill();
    await eventually(membership, () => !membership.health().ok);
    etcd.start();
    // A reader of its own, so that the others are behind when the history is cut.
    const withdraw = other.announce(sampleMember("a"));
    await until("etcd", 10_000, async () => {
      const key = Buffer.from("x").toString("base64");
      const put = await askEtcd(etcd.url, "kv/put", { key, value: key }).catch(() => undefined);
      const revision = (put?.["header"] as { revision?: string } | undefined)?.revision;
      if (revision === undefined) return undefined;
      await askEtcd(etcd.url, "kv/compaction", { revision });
      return true;
    });
    await eventually(membership, () => ids(membership) === "a" && membership.health().ok);
    await withdraw();
    await eventually(membership, () => ids(membership) === "");
  }, 40_000);

  it("forgets nobody when etcd comes back empty, and those who do not come back after a lease", async () => {
    const cluster = freshName();
    const membership = await join_([etcd.url], cluster);
    const lives = await join_([etcd.url], cluster);
    const dies = await join_([etcd.url], cluster);
    lives.announce(sampleMember("a"));
    dies.announce(sampleMember("b"));
    membership.announce(sampleMember("r", { kind: "router" }));
    await eventually(membership, () => ids(membership) === "a b r");
    await etcd.kill();
    await dies.close();
    etcd.wipe();
    const seen = new Set<string>();
    membership.subscribe(() => seen.add(ids(membership)));
    etcd.start();
    await eventually(membership, () => ids(membership) === "a r", 20_000);
    // Never without those that live.
    expect([...seen].filter((each) => !/a.*r/.test(each))).toEqual([]);
  }, 40_000);
});

describe.skipIf(missing !== undefined)("membership in an etcd of three", () => {
  it("goes on when the member that it asks is killed, and when one answers nothing", async () => {
    const ports = await freePorts(6);
    const etcds = [0, 1, 2].map(
      (n) => new EtcdProcess({ name: `e${n}`, port: ports[2 * n]!, peerPort: ports[2 * n + 1]! }),
    );
    for (const each of etcds) each.start(etcds);
    try {
      const endpoints = etcds.map(({ url }) => url);
      const cluster = freshName();
      const membership = await join_(endpoints, cluster);
      const other = await join_([...endpoints].reverse(), cluster);
      other.announce(sampleMember("a"));
      await eventually(membership, () => ids(membership) === "a");
      await etcds[0]?.kill();
      other.announce(sampleMember("b"));
      await eventually(membership, () => ids(membership) === "a b");
      etcds[0]?.start(etcds);
      await until("three members", 20_000, async () => {
        const key = Buffer.from("x").toString("base64");
        const got = await askEtcd(etcds[0]!.url, "kv/range", { key }).catch(() => undefined);
        return got?.["header"] === undefined ? undefined : true;
      });
      // It hangs: connections stay open and nothing is answered.
      const asked = etcds.find(({ url }) => membership.health().source.endsWith(url));
      asked?.signal("SIGSTOP");
      other.announce(sampleMember("c"));
      await eventually(membership, () => ids(membership) === "a b c", 20_000);
      await eventually(membership, () => membership.health().ok, 20_000);
    } finally {
      for (const each of etcds) await each.dispose();
    }
  }, 90_000);
});

describe.skipIf(missing !== undefined)("membership in an etcd that asks who comes", () => {
  const dir = mkdtempSync(join(tmpdir(), "cgn-etcd-tls-"));
  let etcd: EtcdProcess;
  let open: EtcdProcess;
  let pems: { ca: string; cert: string; key: string };

  beforeAll(async () => {
    const authority = await testAuthority(dir, "ca");
    const own = await authority.issue("etcd");
    const [ca, cert, key] = [authority.file, own.cert, own.key].map((file) => readFileSync(file, "utf8")) as [
      string,
      string,
      string,
    ];
    pems = { ca, cert, key };
    const files = { ca: authority.file, ...own };
    etcd = await startEtcd({ tls: { ...files, asksClients: true } });
    open = await startEtcd({ tls: { ...files, asksClients: false } });
  }, 30_000);
  afterAll(async () => {
    await etcd.dispose();
    await open.dispose();
    rmSync(dir, { recursive: true });
  });

  it("shows its certificate and proves etcd's; without the right CA it says what is missing", async () => {
    const membership = await join_([etcd.url], "tls", { tls: () => pems });
    membership.announce(sampleMember("a"));
    await eventually(membership, () => ids(membership) === "a");
    await expect(join_([etcd.url], "tls")).rejects.toThrow(/etcd_ca_file/);
  }, 30_000);

  it("logs in as a user, again after etcd was restarted, and says when the password is wrong", async () => {
    const tls = () => ({ ca: pems.ca });
    const client = new EtcdClient({ endpoints: [open.url], clock: realClock, tls, timeoutMs: 10_000 });
    await until("etcd", 20_000, () =>
      client.call("auth/user/add", { name: "root", password: "geheim" }).catch(() => undefined),
    );
    await client.call("auth/role/add", { name: "root" });
    await client.call("auth/user/grant", { user: "root", role: "root" });
    await client.call("auth/enable", {});
    await client.close();
    const user = { name: "root", password: "geheim" };
    const membership = await join_([open.url], "auth", { tls, user });
    membership.announce(sampleMember("a"));
    await eventually(membership, () => ids(membership) === "a");
    await open.kill();
    open.start();
    await eventually(membership, () => !membership.health().ok);
    await eventually(membership, () => membership.health().ok, 20_000);
    membership.announce(sampleMember("b"));
    await eventually(membership, () => ids(membership) === "a b");
    const wrong = { name: "root", password: "falsch" };
    await expect(join_([open.url], "auth", { tls, user: wrong })).rejects.toThrow(/etcd_password/);
    await expect(join_([open.url], "auth", { tls })).rejects.toThrow(/etcd_username/);
  }, 60_000);
});
