import type { Clock } from "../core/clock.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import type { Log } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { SavedShape } from "../kvindex/event-shape.ts";
import type { AppliedIndex } from "./applied-index.ts";
import type { ParityFinding } from "./parity-probe.ts";
import type { ResumePoint, SourcePolicy } from "./source-state.ts";
import type { ModelText, Vocabularies } from "./vocabularies.ts";
import type { WorkTurns } from "./work-turns.ts";

/** What following a worker needs from its surroundings. */
export interface FollowDeps {
  readonly index: AppliedIndex;
  readonly clock: Clock;
  readonly log: Log;
  readonly vocabularies: Vocabularies;
  readonly policy?: SourcePolicy;
  /** Asked once the vocabulary is there; the finding is shown in `Sources`. */
  parity(worker: WorkerInfo, text: ModelText): Promise<ParityFinding>;
  /** The event loop's time that all sources share. */
  readonly turns: WorkTurns;
  /** What may be kept of each worker's changes, in bytes. */
  journalBytes(): number;
  /** Something to be seen changed. */
  changed(): void;
  /** For metrics: a batch was taken in. */
  events?(worker: WorkerInfo["id"], batch: KvEventBatch): void;
}

/** What another run wrote down of a worker, besides what it held. */
export interface RestoredWorker {
  readonly resume: ResumePoint;
  readonly shape: SavedShape;
  /** All of it is in the index. Events are read only then: what they say comes after it. */
  readonly loaded: Promise<void>;
  /** Told once: the engine proved that it still is the process that was written down, or it did not and all of it is dropped. */
  settled(believed: boolean, why: string): void;
}

/** What a source has shown of itself. */
export interface SourceEvidence {
  readonly events: number;
  /** Stretches of messages that could not be had again. */
  readonly lostStretches: number;
  /** Blocks that could not be placed: those before them were stored before it was listened to, or in a stretch that was lost. */
  readonly orphanedBlocks: number;
  readonly blockTokens: number | undefined;
  /** Why its tokens cannot be those of our prompts; "" for no reason. */
  readonly mismatch: string;
}
