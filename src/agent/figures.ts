import type { MetricsSettings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { EngineFigures } from "../core/worker.ts";
import { findEngine } from "../engines/registry.ts";
import { probeHttp } from "../process/probe.ts";
import type { Agent } from "./agent.ts";
import { headroomOf, type PowerReading, type PowerReadings, type PowerSource, sumPower } from "./power.ts";
import { nvidiaPower } from "./power-nvidia.ts";
import { raplPower } from "./power-rapl.ts";
import { redfishPower } from "./power-redfish.ts";

export interface FiguresOptions {
  readonly agent: Pick<Agent, "status" | "setFigures" | "apiKey" | "gpusOf">;
  readonly metrics: MetricsSettings;
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Default: what the host and `[metrics]` have. */
  readonly sources?: readonly PowerSource[];
}

const ASK_MS = 3_000;
const REST_MS = 60_000;
/** Figures are told in these steps: routers need no more, and each change is told to all of them. */
const STEP = 0.05;

/**
 * Read what the host draws and what engines say of their KV space, every `[metrics].scrape_interval`, and let the agent announce it.
 * GPUs' own figures count first, then Redfish's, then the processor packages'. What cannot be read is said once; it is tried again
 * after a minute.
 */
export function startFigures(options: FiguresOptions): { close(): void } {
  const { agent, metrics, clock, log, env } = options;
  const sources = (options.sources ?? sourcesOf(metrics, clock, env)).map((source) => resting(source, clock));
  let closed = false;
  let cancel = (): void => {};
  let wasSaid = "";
  const round = async (): Promise<void> => {
    const { readings, problems } = await readAll(sources);
    const said = problems.join("; ");
    if (readings.length === 0 && said !== wasSaid) {
      log.info("No power is read on this host: the weight `power` does not count for its engines", { why: said });
      wasSaid = said;
    }
    for (const { worker } of agent.status()) {
      const power = powerOf(readings, agent.gpusOf(worker.id));
      const kvFree = worker.state === "ready" ? await freeKv(worker, agent.apiKey(worker.id)) : undefined;
      if (!closed) agent.setFigures(worker.id, figuresOf(power, kvFree));
    }
  };
  const go = (): void => {
    void round()
      .catch((err: unknown) => log.warn("Figures of engines could not be read", { err: String(err) }))
      .then(() => {
        if (!closed) cancel = clock.after(metrics.scrapeIntervalMs, go);
      });
  };
  go();
  return {
    close() {
      closed = true;
      cancel();
    },
  };
}

function sourcesOf(
  { redfish }: MetricsSettings,
  clock: Clock,
  env: Readonly<Record<string, string | undefined>>,
): readonly PowerSource[] {
  return [nvidiaPower(env), ...(redfish === undefined ? [] : [redfishPower(redfish)]), raplPower(clock)];
}

/** A source that cannot be read is left alone for a while: its reason is told meanwhile. */
function resting(source: PowerSource, clock: Clock): PowerSource {
  let failed: { readonly atMs: number; readonly error: unknown } | undefined;
  return {
    name: source.name,
    async read() {
      if (failed !== undefined && clock.now() - failed.atMs < REST_MS) throw failed.error;
      failed = undefined;
      try {
        return await source.read();
      } catch (error) {
        failed = { atMs: clock.now(), error };
        throw error;
      }
    },
  };
}

async function readAll(
  sources: readonly PowerSource[],
): Promise<{ readonly readings: readonly PowerReadings[]; readonly problems: readonly string[] }> {
  const readings: PowerReadings[] = [];
  const problems: string[] = [];
  for (const source of sources) {
    try {
      readings.push(await source.read());
    } catch (error) {
      problems.push(`${source.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { readings, problems };
}

/** Of its GPUs (all, where it is not known which), else of the first source that knows the host. */
function powerOf(readings: readonly PowerReadings[], gpus: readonly number[] | undefined): PowerReading | undefined {
  for (const { gpus: all, host } of readings) {
    const own = [...all].filter(([index]) => gpus === undefined || gpus.includes(index)).map(([, reading]) => reading);
    const found = own.length > 0 ? sumPower(own) : host;
    if (found !== undefined) return found;
  }
  return undefined;
}

async function freeKv(
  { kind, url }: { readonly kind: Parameters<typeof findEngine>[0]; readonly url: string },
  apiKey: string | undefined,
): Promise<number | undefined> {
  const { metrics } = findEngine(kind).probe;
  if (metrics === undefined) return undefined;
  const key = apiKey === undefined ? {} : { apiKey };
  const { status, body } = await probeHttp({ url: url + metrics.path, timeoutMs: ASK_MS, ...key });
  const usage = status === 200 ? metrics.parse(body).kvUsage : undefined;
  return usage === undefined ? undefined : Math.min(1, Math.max(0, 1 - usage));
}

function figuresOf(power: PowerReading | undefined, kvFree: number | undefined): EngineFigures | undefined {
  const powerHeadroom = power === undefined ? undefined : headroomOf(power);
  const figures = {
    ...(powerHeadroom === undefined ? {} : { powerHeadroom: stepped(powerHeadroom) }),
    ...(power === undefined ? {} : { powerWatts: Math.round(power.watts) }),
    ...(kvFree === undefined ? {} : { kvFree: stepped(kvFree) }),
  };
  return Object.keys(figures).length === 0 ? undefined : figures;
}

const stepped = (share: number): number => Math.round(Math.round(share / STEP) * STEP * 100) / 100;
