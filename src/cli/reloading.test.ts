import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Agent } from "../agent/agent.ts";
import { loadSettings } from "../config/load.ts";
import { SAMPLE_HOST } from "../config/sample-host.ts";
import type { RouterSettings, Settings } from "../config/settings.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import type { Router } from "../router/create-router.ts";
import { createReloader } from "./reloading.ts";

let dir: string;
let hangup: (() => void) | undefined;
let said: string[];
let given: Pick<Settings, "engines">[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-reloading-"));
  hangup = undefined;
  said = [];
  given = [];
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const GOOD = '[engine]\nkind = "vllm"\n[models.m]\n';

async function load(toml: string): Promise<Settings> {
  writeFileSync(join(dir, "c.toml"), toml);
  return loadSettings({ path: "c.toml", cwd: dir, env: {}, host: SAMPLE_HOST });
}

async function make(next: string, router?: Pick<Router, "retune">) {
  const agent: Pick<Agent, "reload"> = {
    async reload(settings) {
      given.push(settings);
      return { restarted: [], started: [], stopped: [], untouched: ["n/m"], later: [], done: Promise.resolve() };
    },
  };
  const log: Log = {
    ...SILENT_LOG,
    error: (message, fields) => void said.push(`${message}: ${String(fields?.["err"])}`),
  };
  return createReloader({
    load: () => load(next),
    settings: await load(GOOD),
    agent: () => agent as Agent,
    ...(router === undefined ? {} : { router: () => router }),
    log,
    cli: {
      onHangup(listener) {
        hangup = listener;
        return () => {
          hangup = undefined;
        };
      },
    },
  });
}

describe("createReloader()", () => {
  it("hands a good file to the agent, and names the sections that wait for a new start", async () => {
    const reloader = await make(`[router]\nlisten_http = "127.0.0.1:9999"\n${GOOD}`);
    expect(await reloader.reload()).toMatchObject({ untouched: ["n/m"], later: ["router"] });
    expect([given.length, reloader.hasReloaded]).toEqual([1, true]);
  });

  it("lets the router choose and admit by the new file at once, and names what it cannot change", async () => {
    const tuned: unknown[] = [];
    const router = { retune: (settings: Pick<RouterSettings, "policy">) => void tuned.push(settings.policy) };
    const only = '[router]\npolicy = "least_loaded"\n[router.admission]\nmax_queue = 7\n';
    const good = await make(`${only}${GOOD}`, router);
    expect(await good.reload()).toMatchObject({ applied: ["router.policy", "router.admission"], later: [] });
    const more = await make(`[router]\nlisten_http = "127.0.0.1:9999"\n${GOOD}`, router);
    expect(await more.reload()).toMatchObject({ applied: [], later: ["router"] });
    expect(tuned).toEqual(["least_loaded", "ttft"]);
  });

  it("lets the router cascade by the new file at once, and says that limits of prompts and traces wait", async () => {
    const tuned: unknown[] = [];
    const router = { retune: ({ cascades }: Partial<RouterSettings>) => void tuned.push(Object.keys(cascades ?? {})) };
    const chain = '[router.cascade]\nenabled = true\n[models.auto]\ncascade = ["m"]\n';
    expect(await (await make(`${chain}${GOOD}`, router)).reload()).toMatchObject({
      applied: ["router.cascade"],
      later: [],
    });
    expect(tuned).toEqual([["auto"]]);
    const limits = `[tracing]\notlp_endpoint = "http://127.0.0.1:4318"\n${GOOD}max_prompt_tokens = 100\n`;
    expect(await (await make(limits, router)).reload()).toMatchObject({
      later: ["tracing", "models.max_prompt_tokens"],
    });
  });

  it("changes nothing for a bad file, and says where it is bad", async () => {
    const reloader = await make(GOOD.replace("vllm", "vlm"));
    await expect(reloader.reload()).rejects.toThrow(/at c\.toml:2:8: .*vlm/);
    hangup?.();
    for (let i = 0; i < 50 && said.length === 0; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(said).toEqual([expect.stringContaining("configuration is not reloaded, nothing has changed")]);
    expect(said[0]).toContain("c.toml:2:8");
    expect([given, reloader.hasReloaded]).toEqual([[], false]);
    reloader.close();
    expect(hangup).toBeUndefined();
  });

  it("does not take a file without engines for the wish to end all of them", async () => {
    const reloader = await make("[models.m]\n");
    await expect(reloader.reload()).rejects.toThrow("Cannot reload");
    expect(given).toEqual([]);
  });
});
