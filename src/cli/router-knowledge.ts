import { randomInt } from "node:crypto";
import { registerWithKvcached } from "../agent/kv-registration.ts";
import type { Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { createKvcached } from "../kvcached/service.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { connectKv } from "../wire/kv-client.ts";
import type { WireAddress } from "../wire/transport.ts";

/** How often a kvcached elsewhere is told again: it may have been restarted. */
const REGISTER_MS = 5_000;

/** What a router knows of prefixes: a kvcached in this process, or one elsewhere. */
export interface OpenKnowledge {
  readonly prefixes: PrefixKnowledge;
  /** For `/v1/cgn/status`. */
  sources(): unknown;
  close(): void;
}

export interface KnowledgeOptions {
  /** Undefined: embed one. */
  readonly kvcached: WireAddress | undefined;
  readonly settings: Pick<Settings, "kv">;
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly metrics: Metrics;
  /** All workers. */
  readonly directory: WorkerDirectory;
  /** Those that no agent registers. */
  readonly adopted: WorkerDirectory;
}

/** Read `http://HOST:PORT` or `unix:PATH`. @throws CgnError BAD_INVOCATION */
export function wireAddress(text: string): WireAddress {
  if (text.startsWith("unix:")) return { uds: text.slice("unix:".length) };
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return { url: text.replace(/\/+$/, "") };
  throw new CgnError(
    "BAD_INVOCATION",
    `Cannot read the address "${text}": it is neither a URL nor unix:PATH. Write for example http://127.0.0.1:7071`,
    { text },
  );
}

export function openKnowledge(options: KnowledgeOptions): OpenKnowledge {
  return options.kvcached === undefined ? embedded(options) : remote(options, options.kvcached);
}

function embedded({ settings, clock, log, env, metrics, directory }: KnowledgeOptions): OpenKnowledge {
  const service = createKvcached({
    clock,
    log,
    env,
    metrics,
    capBytes: settings.kv.ramBytes,
    seed: randomInt(2 ** 32),
  });
  const leave = service.follow(directory);
  return {
    prefixes: service,
    sources: () => service.sources(),
    close() {
      leave();
      service.close();
    },
  };
}

function remote({ clock, log, adopted }: KnowledgeOptions, address: WireAddress): OpenKnowledge {
  const kv = connectKv({ address, clock });
  const registration = registerWithKvcached({ directory: adopted, client: kv, clock, log, everyMs: REGISTER_MS });
  return {
    prefixes: kv,
    sources: () => ({ remote: kv.health() }),
    close() {
      void registration.close();
      kv.close();
    },
  };
}
