import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { simConfig } from "../../src/cli/demo/config.ts";
import { type CgnProcess, freePorts, runCgn, scratch, startCgn, until } from "../helpers/cgn-process.ts";
import { type ChatReply, chat, readyWorkers } from "../helpers/up.ts";

interface Mirror {
  readonly state: string;
  readonly ageMs: number;
  readonly snapshots: number;
  readonly reason: string;
  readonly blocks: number;
}
interface Stats {
  readonly blocks: number;
  readonly snapshot: { readonly state: string; readonly restored: number; readonly dropped: number };
  readonly watchers: readonly { readonly name: string; readonly state: string }[];
}

describe("kill -9 of kvcached during load, with agent, kvcached and router as three processes", () => {
  const place = scratch();
  const uds = join(place.dir, "kv.sock");
  let config: string[] = [];
  let kvcached: CgnProcess;
  let others: CgnProcess[] = [];
  let url = "";
  let admin = "";
  const words = (): string => [kvcached, ...others].map((d) => d.output()).join("\n---\n");
  const mirror = async (): Promise<Mirror | undefined> => {
    const { out } = await runCgn(["kv", "stats", "--router", admin, "--json"]);
    return (JSON.parse(out) as Mirror[])[0];
  };
  const stats = async (): Promise<Stats> =>
    JSON.parse((await runCgn(["kv", "stats", "--uds", uds, "--json"])).out) as Stats;

  beforeAll(async () => {
    const [http = 0, adminPort = 0, one = 0, two = 0, agent = 0, agentAdmin = 0, kv = 0] = await freePorts(7);
    url = `http://127.0.0.1:${http}`;
    admin = `http://127.0.0.1:${adminPort}`;
    const toml = simConfig({ http, admin: adminPort, engines: [one, two] }, place.dir)
      .replace(
        "[agent]",
        `[agent]\nlisten = "127.0.0.1:${agent}"\nlisten_admin = "127.0.0.1:${agentAdmin}"\nkv_uds = "${uds}"`,
      )
      .replace("[kv]", `[kv]\nuds = "${uds}"\nlisten = "127.0.0.1:${kv}"\nsnapshot_every = "500ms"`);
    config = ["--config", place.file("cgn.toml", toml)];
    kvcached = startCgn(["kvcached", ...config]);
    others = [startCgn(["agent", ...config]), startCgn(["router", ...config, "--kvcached", `unix:${uds}`])];
    await until("engines ready", 60_000, async () => ((await readyWorkers(admin)) === 2 ? true : undefined), words);
    await until("the copy", 20_000, async () => ((await mirror())?.state === "live" ? true : undefined), words);
  }, 90_000);

  afterAll(async () => {
    for (const daemon of [kvcached, ...others]) daemon.child.kill("SIGTERM");
    await Promise.all([kvcached, ...others].map((d) => d.exit));
    place.dispose();
  }, 60_000);

  /** A conversation that grows; each turn repeats all before it. */
  const talk = (topic: string) => {
    const messages: object[] = [{ role: "system", content: `${topic} `.repeat(40) }];
    return async (words: string): Promise<ChatReply> => {
      messages.push({ role: "user", content: words });
      const reply = await chat(url, {
        model: "sim",
        max_tokens: 8,
        stream: true,
        stream_options: { include_usage: true },
        messages,
      });
      messages.push({ role: "assistant", content: reply.text });
      return reply;
    };
  };

  it("the router goes on with what it knows and says so; kvcached comes back with all it knew", async () => {
    const talks = [talk("The archive keeps glass plates and night logs."), talk("Letters are filed by year and hand.")];
    for (const each of talks) expect((await each("What is there?")).status, words()).toBe(200);
    await until("a snapshot", 20_000, async () => {
      const { snapshot, blocks } = await stats();
      return snapshot.state === "written" && blocks > 0 ? true : undefined;
    });
    const before = await stats();
    expect(before.watchers).toEqual([
      expect.objectContaining({ state: "live", name: expect.stringMatching(/^router /) }),
    ]);
    await new Promise((resolve) => setTimeout(resolve, 700));

    const replies: ChatReply[] = [];
    let done = false;
    const load = Promise.all(
      talks.map(async (each) => {
        for (let i = 0; !done; i++) replies.push(await each(`And then, number ${i}?`));
      }),
    );
    await until("load", 10_000, () => (replies.length > 3 ? true : undefined), words);
    kvcached.child.kill("SIGKILL");
    await kvcached.exit;
    const killed = replies.length;
    await until("more replies", 20_000, () => (replies.length > killed + 6 ? true : undefined), words);
    const lost = await mirror();
    expect(lost).toMatchObject({ state: "lost", reason: expect.stringMatching(/./) });
    expect(lost?.ageMs).toBeGreaterThan(0);
    expect(others[1]?.output()).toContain("routing goes on with what was known of prefixes");
    // What was cached before is still found where it is.
    expect(replies.slice(killed).filter(({ predicted }) => predicted > 0).length).toBeGreaterThan(0);

    kvcached = startCgn(["kvcached", ...config]);
    await until("the copy again", 20_000, async () => ((await mirror())?.state === "live" ? true : undefined), words);
    done = true;
    await load;
    expect(
      replies.every(({ status, finished }) => status === 200 && finished),
      words(),
    ).toBe(true);
    const after = await stats();
    expect(after.snapshot, words()).toMatchObject({ state: "written", dropped: 0 });
    expect(after.snapshot.restored).toBeGreaterThan(0);
    expect((await mirror())?.snapshots).toBe(2);
    // The index is whole again: what it predicts is what the engine reports.
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const each of talks) {
      const reply = await each("And the last of all?");
      expect(reply.predicted).toBe(reply.cached);
      expect(reply.cached).toBeGreaterThan(0);
    }
  }, 90_000);
});
