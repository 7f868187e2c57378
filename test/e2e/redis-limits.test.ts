import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Limits } from "../../src/access/limits.ts";
import { type OnRedisLoss, RedisLimitStore } from "../../src/access/redis-limit-store.ts";
import type { Subject } from "../../src/access/subject.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { realClock } from "../../src/router/testing/test-router.ts";

/** Redis on a Unix socket of its own: no port to be taken. */
const found = ((): string | undefined => {
  try {
    execFileSync("redis-server", ["--version"]);
    return "redis-server";
  } catch {
    return undefined;
  }
})();
// Where all tools must be there (.ci/run), a missing one is a failure; elsewhere these tests are skipped.
const required = process.env["CGN_REQUIRE_TOOLS"] !== undefined;

const dir = mkdtempSync(join(tmpdir(), "cgn-redis-"));
const sock = join(dir, "redis.sock");
let redis: ChildProcess | undefined;

async function startRedis(): Promise<void> {
  redis = spawn(found!, ["--port", "0", "--unixsocket", sock, "--save", "", "--dir", dir], { stdio: "pipe" });
  const { stdout } = redis;
  let said = "";
  await new Promise<void>((resolve, reject) => {
    stdout?.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (/Ready to accept connections/i.test(said)) resolve();
    });
    redis?.once("exit", () => reject(new Error(`redis-server ended: ${said}`)));
  });
}

async function killRedis(): Promise<void> {
  if (redis === undefined || redis.exitCode !== null || redis.signalCode !== null) return;
  const gone = once(redis, "exit");
  redis.kill("SIGKILL");
  await gone;
}

const opened: RedisLimitStore[] = [];
afterEach(() => {
  for (const store of opened.splice(0)) store.close();
});

async function router(
  cluster: string,
  onLoss: OnRedisLoss = "local",
): Promise<{ limits: Limits; store: RedisLimitStore }> {
  const store = await RedisLimitStore.open({ url: sock, onLoss, cluster, clock: realClock, log: SILENT_LOG });
  opened.push(store);
  return { limits: new Limits({ enabled: false, rps: 50, burst: 200 }, store), store };
}

function subject(limits: Subject["limits"]): Subject {
  return { name: "a", authenticated: true, keyId: "key:a", scopes: new Set(["inference"]), limits };
}

async function letIn(limits: Limits, who: Subject): Promise<string> {
  try {
    const ticket = await limits.admit(who);
    return ticket.headers["x-ratelimit-remaining-requests"] ?? "in";
  } catch (e) {
    return (e as { code: string }).code;
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 1_500 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}

describe.skipIf(found === undefined && !required)("rate limits in Redis", () => {
  beforeAll(startRedis, 30_000);
  afterAll(async () => {
    await killRedis();
    rmSync(dir, { recursive: true, force: true });
  });

  it("two routers together let through what one may, also when they ask at the same time", async () => {
    const [one, two] = [await router("shared"), await router("shared")];
    // One an hour flows back: the time that the test takes does not count.
    const who = subject({ rpm: 40, tpm: 100_000 });
    const slow = { ...who, limits: { rps: 1 / 3_600 } };
    const asked = await Promise.all(
      Array.from({ length: 100 }, (_, i) => letIn((i % 2 === 0 ? one : two).limits, { ...slow, keyId: "key:slow" })),
    );
    expect(asked.filter((said) => said !== "RATE_LIMITED")).toHaveLength(1);
    expect(await letIn(one.limits, who)).toBe("39");
    expect(Number(await letIn(two.limits, who))).toBeLessThanOrEqual(39);
  });

  it("tokens that one router counted are gone for the other", async () => {
    const [one, two] = [await router("tokens"), await router("tokens")];
    const who = subject({ tpm: 1_000 });
    const ticket = await one.limits.admit(who);
    ticket.reserve(500);
    ticket.end(900_000);
    // Charges are sent and not waited for.
    let said = "in";
    for (let i = 0; i < 500 && said !== "RATE_LIMITED"; i++) {
      said = await letIn(two.limits, who);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(said).toBe("RATE_LIMITED");
  });

  it("goes on alone, lets all pass or none when Redis is killed amid the load, and comes back", async () => {
    const routers = {
      local: await router("kill", "local"),
      open: await router("kill", "open"),
      closed: await router("kill", "closed"),
    };
    const who = (id: string): Subject => ({ ...subject({ rps: 1 / 3_600 }), keyId: `key:${id}` });
    const said: string[] = [];
    let going = true;
    const load = (async () => {
      for (let i = 0; going; i++) {
        said.push(await letIn(routers.local.limits, who(`load${i}`)));
        // Without Redis nothing waits, and a loop that never waits lets nobody else run.
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await until(() => said.length > 50);
    await killRedis();
    await until(() => Object.values(routers).every(({ store }) => store.status().state === "lost"));
    const before = said.length;
    await until(() => said.length > before + 50);
    going = false;
    await load;
    // Each was the first of its subject: nobody was refused, and nothing hung.
    expect(said.filter((text) => text === "RATE_LIMITED" || text === "DEPENDENCY_UNREACHABLE")).toEqual([]);
    const twice = async (name: keyof typeof routers): Promise<string[]> => {
      const { limits } = routers[name];
      return [await letIn(limits, who("x")), await letIn(limits, who("x"))];
    };
    expect((await twice("local"))[1]).toBe("RATE_LIMITED");
    expect(await twice("open")).not.toContain("RATE_LIMITED");
    expect(await twice("closed")).toEqual(["DEPENDENCY_UNREACHABLE", "DEPENDENCY_UNREACHABLE"]);
    await startRedis();
    await until(() => Object.values(routers).every(({ store }) => store.status().state === "ready"));
    expect((await twice("closed"))[1]).toBe("RATE_LIMITED");
    expect(routers.local.store.status()).toMatchObject({ store: "redis", onLoss: "local" });
  }, 60_000);
});
