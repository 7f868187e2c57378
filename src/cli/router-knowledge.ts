import { randomInt } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { createKvcached } from "../kvcached/service.ts";
import { connectKv, type KvClient } from "../wire/kv-client.ts";
import type { WireAddress } from "../wire/transport.ts";

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

function embedded({ settings, clock, log, env, directory }: KnowledgeOptions): OpenKnowledge {
  const service = createKvcached({ clock, log, env, capBytes: settings.kv.ramBytes, seed: randomInt(2 ** 32) });
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
  const leave = registerAll(kv, adopted, log);
  return {
    prefixes: kv,
    sources: () => ({ remote: kv.health() }),
    close() {
      leave();
      kv.close();
    },
  };
}

/** Tell a kvcached elsewhere of the engines that only this router watches; it is told anew at each change of them. */
function registerAll(kv: KvClient, adopted: WorkerDirectory, log: Log): () => void {
  let known = new Set<WorkerId>();
  const failed = (e: unknown): void =>
    log.once("kvcached/register").warn("An engine is unknown to kvcached", { why: String(e) });
  const tell = (workers: readonly WorkerInfo[]): void => {
    const alive = workers.filter((w) => w.state !== "down" && w.models.length > 0);
    for (const worker of alive) kv.register(worker).catch(failed);
    const now = new Set(alive.map((w) => w.id));
    for (const id of known) if (!now.has(id)) kv.unregister(id).catch(failed);
    known = now;
  };
  tell(adopted.list());
  return adopted.subscribe(tell);
}
