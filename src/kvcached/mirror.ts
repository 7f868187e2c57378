import { randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvSourceStatus } from "../core/kv-status.ts";
import type { Log } from "../core/log.ts";
import type { MatchQuery, PredictionVerdict, PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";
import { hasOneEpoch, type WorkerDirectory } from "../core/worker.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { KvClient } from "../wire/kv-client.ts";
import type { KvNote } from "../wire/kv-note.ts";
import { MirrorLink, type MirrorStatus } from "./mirror-link.ts";

export interface MirrorOptions {
  /** One for each kvcached that is known from the start; who made them closes them. */
  readonly clients: readonly KvClient[];
  readonly clock: Clock;
  readonly log: Log;
  /** Cap of all copies together, in bytes; each begins with an equal part, of as many as there are then. */
  readonly capBytes: number;
  /** Who is there, as this process knows it first hand: an engine that was restarted since holds nothing of what is known. */
  readonly directory?: WorkerDirectory;
  readonly metrics?: Metrics;
  /** Shown in `cgn kv stats`. Default "mirror". */
  readonly name?: string;
}

/** Knowledge of prefixes as a copy of what other processes know: `match` is immediate and goes on without them. */
export interface Mirror extends PrefixKnowledge {
  match(query: MatchQuery): readonly WorkerMatch[];
  /** Keep a copy of one more kvcached's index; the result ends it. */
  add(client: KvClient): () => void;
  status(): readonly MirrorStatus[];
  /** The sources of all kvcacheds, as they were when last heard. */
  sources(): readonly KvSourceStatus[];
  close(): void;
}

/**
 * Keep a copy of the index of one or several kvcacheds. What is sent from here counts at once, is told to the kvcached that follows
 * the worker, and waits in a bounded queue while that is away.
 *
 * Engines that are known by history have the same machinery here as in kvcached, fed with the same notes: asking kvcached
 * about them would cost a round trip a request, and leave nothing to go on with when it is gone.
 */
export function createMirror(options: MirrorOptions): Mirror {
  const { clients, clock, log } = options;
  let notes = 0;
  const watcher = `${options.name ?? "mirror"}-${randomUUID().slice(0, 8)}`;
  const links: MirrorLink[] = [];
  const capBytes = () => Math.floor(options.capBytes / Math.max(1, links.length));
  const linkTo = (client: KvClient): MirrorLink => {
    const link = new MirrorLink({ client, clock, log, capBytes, watcher, ownNotes: () => notes });
    links.push(link);
    return link;
  };
  for (const client of clients) linkTo(client);
  const epochs = new Map<WorkerId, number>();
  const rose = (id: WorkerId): void => {
    for (const link of links) if (!link.isLive) link.restarted.add(id);
  };
  const leave = options.directory === undefined ? () => {} : followEpochs(options.directory, epochs, rose);
  const leaveMetrics = options.metrics === undefined ? () => {} : exportMirror(options.metrics, links);
  const isVoid = (link: MirrorLink, { worker }: WorkerMatch): boolean => {
    const epoch = epochs.get(worker);
    const known = link.copy?.workers.get(worker)?.info;
    if (known !== undefined && !hasOneEpoch(known)) return link.restarted.has(worker);
    // A higher one is no older knowledge: of an engine that nobody starts, each who watches it counts from his own start.
    return epoch !== undefined && (known === undefined || epoch > known.epoch);
  };
  const ownerOf = (id: WorkerId): MirrorLink | undefined =>
    links.find((link) => link.isLive && link.copy?.workers.has(id)) ??
    links.find((link) => link.copy?.workers.has(id)) ??
    (links.length === 1 ? links[0] : undefined);
  const hear = (note: KvNote, judged?: (verdict: PredictionVerdict) => void) => {
    const own = { ...note, origin: { watcher, note: ++notes } };
    const owner = ownerOf(note.worker);
    for (const link of links) link.hear(own, link === owner ? judged : undefined);
    owner?.queue.push(own);
  };
  for (const link of links) link.start();
  return {
    match(query) {
      const answers = links.map((link) => (link.copy?.match(query) ?? []).filter((match) => !isVoid(link, match)));
      return answers.length === 1 ? answers[0]! : merged(links, answers);
    },
    sent: (worker, query) => hear({ type: "sent", worker, query }),
    unsent: (worker, query) => hear({ type: "unsent", worker, query }),
    observe: (outcome, judged) => hear({ type: "observed", worker: outcome.worker, outcome }, judged),
    add(client) {
      const link = linkTo(client);
      link.start();
      return () => {
        link.close();
        const at = links.indexOf(link);
        if (at >= 0) links.splice(at, 1);
      };
    },
    status: () => links.map((link) => link.status()),
    sources: () => links.flatMap((link) => link.sources),
    close() {
      leave();
      leaveMetrics();
      for (const link of links) link.close();
    },
  };
}

function followEpochs(
  directory: WorkerDirectory,
  epochs: Map<WorkerId, number>,
  rose: (id: WorkerId) => void,
): () => void {
  const take = (workers: ReturnType<WorkerDirectory["list"]>) => {
    const before = new Map(epochs);
    epochs.clear();
    for (const { id, epoch } of workers) {
      epochs.set(id, epoch);
      if (epoch > (before.get(id) ?? epoch)) rose(id);
    }
  };
  take(directory.list());
  return directory.subscribe(take);
}

/** A worker that several kvcacheds follow is told by one that is live, rather than by one that is gone. */
function merged(links: readonly MirrorLink[], answers: readonly (readonly WorkerMatch[])[]): WorkerMatch[] {
  const owner = new Map<WorkerId, number>();
  for (const live of [true, false]) {
    for (const [i, link] of links.entries()) {
      if (link.isLive !== live) continue;
      for (const id of link.copy?.workers.keys() ?? []) if (!owner.has(id)) owner.set(id, i);
    }
  }
  return answers.flatMap((matches, i) => matches.filter((match) => owner.get(match.worker) === i));
}

function exportMirror(metrics: Metrics, links: readonly MirrorLink[]): () => void {
  return metrics.onScrape(() => {
    for (const link of links) {
      const { kvcached, state, ageMs } = link.status();
      metrics.gauge("cgn_router_kvcached_live", kvcached).set(state === "live" ? 1 : 0);
      if (ageMs !== undefined) metrics.gauge("cgn_router_kvcached_age_seconds", kvcached).set(ageMs / 1000);
    }
  });
}
