import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { NodeMark } from "../core/membership.ts";
import { holdsNothing, type WorkerDirectory, type WorkerInfo } from "../core/worker.ts";
import { partsOf, partsOfGroup } from "./pairs.ts";

/** The workers of one model. */
export interface ModelGroup {
  readonly model: string;
  readonly workers: readonly WorkerInfo[];
  /** Those that take new requests. */
  readonly ready: readonly WorkerInfo[];
}

/** Told to clients of a model that nobody serves now: about as long as an engine's restart. */
const RETRY_AFTER_S = 5;

const MAX_DEPARTED = 100;

/**
 * The directory as the request path needs it: by model, with the operator's marks, and with a shout when a process is gone
 * so that what runs on it ends.
 */
export class Fleet {
  readonly #onLost: (worker: WorkerInfo, reason: string) => void;
  readonly #splits: boolean;
  readonly #unpaired = new Map<WorkerId, string>();
  readonly #cautions = new Map<WorkerId, string>();
  readonly #heldBack: (worker: WorkerId) => string | undefined;
  readonly #onChange: () => void;
  #marks: ReadonlyMap<string, NodeMark> = new Map();
  readonly #unsubscribe: () => void;
  #workers: readonly WorkerInfo[] = [];
  #groups: ReadonlyMap<string, ModelGroup> = new Map();
  readonly #departed = new Map<string, ModelGroup>();

  /**
   * @param onLost the process behind `worker` is gone (down, restarted, or no longer listed)
   * @param onChange after each change of the list, not for the first one
   * @param splits may requests be computed by a prefill and a decode worker together?
   * @param heldBack why a worker gets no requests while others of its model can take them (its circuit breaker)
   */
  constructor(
    directory: WorkerDirectory,
    onLost: (worker: WorkerInfo, reason: string) => void,
    onChange: () => void = () => {},
    heldBack: (worker: WorkerId) => string | undefined = () => undefined,
    splits = true,
  ) {
    this.#splits = splits;
    this.#heldBack = heldBack;
    this.#onLost = onLost;
    this.#onChange = onChange;
    this.#workers = directory.list();
    this.#regroup();
    this.#unsubscribe = directory.subscribe((workers) => this.#take(workers));
  }

  workers(): readonly WorkerInfo[] {
    return this.#workers;
  }

  /** Names that clients may use, in the order in which workers came. */
  models(): readonly string[] {
    return [...this.#groups.keys()];
  }

  group(model: string): ModelGroup | undefined {
    return this.#groups.get(model);
  }

  /** A model that was served until its last worker was taken out: its clients should come back, not give up. */
  departed(model: string): ModelGroup | undefined {
    return this.#departed.get(model);
  }

  /** Why a worker takes no new requests; undefined when it does. */
  whyNot(worker: WorkerInfo): string | undefined {
    const mark = this.#markOf(worker);
    if (mark !== undefined) return `${mark} by an operator`;
    if (worker.state !== "ready") return worker.reason === "" ? worker.state : `${worker.state}: ${worker.reason}`;
    return worker.role === "both" ? undefined : this.#roleProblem(worker);
  }

  #roleProblem({ id, role, traits }: WorkerInfo): string | undefined {
    if (!this.#splits) return `serves only ${role}, and [router.disagg].enabled is false`;
    // One that also answers whole requests is of use without a partner, when nobody else is left.
    return traits.servesWhole === true ? undefined : this.#unpaired.get(id);
  }

  /** Why a prefill or decode worker has nobody to hand over to, or take over from. */
  whyUnpaired(worker: WorkerId): string | undefined {
    return this.#unpaired.get(worker);
  }

  /** In what a decode worker differs from one that it works with, where that may go wrong. */
  cautionOf(worker: WorkerId): string | undefined {
    return this.#cautions.get(worker);
  }

  /** Workers that take over from a prefill worker, or hand over to a decode worker, now. */
  pairedWith(worker: WorkerInfo, model: string): readonly WorkerInfo[] {
    const { pairings } = partsOfGroup(this.#groups.get(model)?.ready ?? []);
    return pairings.find(({ prefill }) => prefill.id === worker.id)?.decodes ?? [];
  }

  /** Why a worker that takes requests gets none now; undefined where it does, or where all of a model's are held back. */
  whyHeldBack(worker: WorkerInfo): string | undefined {
    const chosen = worker.models.some((model) => this.#groups.get(model)?.ready.includes(worker));
    return chosen ? undefined : this.#whyHeld(worker);
  }

  /** Workers of a model that get no requests because of their breakers, with each one's reason; undefined: none. */
  allHeldBack(model: string): Readonly<Record<string, string>> | undefined {
    const group = this.#groups.get(model);
    if (group === undefined || group.ready.length === group.workers.length) return undefined;
    const held: Record<string, string> = {};
    for (const worker of group.workers) {
      const why = group.ready.includes(worker) ? undefined : this.#whyHeld(worker);
      if (why !== undefined) held[worker.id] = why;
    }
    return Object.keys(held).length === 0 ? undefined : held;
  }

  /** Who is held back changed. */
  healthChanged(): void {
    this.#regroup();
  }

  /** Will one of the group's workers be loaded when requests wait for it, or is it started anew by a reload? */
  isLoadable({ workers }: ModelGroup): boolean {
    return workers.some(
      (w) =>
        (w.onDemand === true || w.returns === true) &&
        this.#markOf(w) === undefined &&
        (w.role === "both" || this.#splits),
    );
  }

  /**
   * Those that are not held back. Nobody is refused because of that: where all of a role are, and nobody serves requests whole,
   * all of that role may be asked.
   */
  #preferred(able: readonly WorkerInfo[]): readonly WorkerInfo[] {
    const free = able.filter((w) => this.#whyHeld(w) === undefined);
    if (free.length === able.length || free.some((w) => w.role === "both")) return free;
    return able.filter((w) => free.includes(w) || !free.some(({ role }) => role === w.role));
  }

  #whyHeld({ id, unheard }: WorkerInfo): string | undefined {
    return unheard ?? this.#heldBack(id);
  }

  #markOf(worker: WorkerInfo): NodeMark | undefined {
    return this.#marks.get(worker.id) ?? this.#marks.get(worker.node);
  }

  /** Whom an operator keeps out of new choices, whatever the directory says: by a worker's id or a node's name, also of those not there. */
  setMarks(marks: ReadonlyMap<string, NodeMark>): void {
    if (marks === this.#marks) return;
    this.#marks = marks;
    this.#regroup();
    this.#onChange();
  }

  /** Set or clear one of them. */
  mark(id: string, mark: NodeMark | undefined): void {
    const next = new Map(this.#marks);
    if (mark === undefined) next.delete(id);
    else next.set(id, mark);
    this.setMarks(next);
  }

  /** The worker of this id, or all workers of the node of this name. */
  meant(id: string): readonly WorkerInfo[] {
    return this.#workers.filter((w) => w.id === id || w.node === id);
  }

  close(): void {
    this.#unsubscribe();
  }

  #take(workers: readonly WorkerInfo[]): void {
    const before = this.#workers;
    this.#workers = workers;
    this.#regroup();
    this.#remember(before);
    const now = new Map<WorkerId, WorkerInfo>(workers.map((w) => [w.id, w]));
    for (const old of before) {
      const next = now.get(old.id);
      if (next === undefined) this.#onLost(old, "the engine was taken out");
      else if (next.epoch !== old.epoch) this.#onLost(old, "the engine was restarted");
      else if (holdsNothing(next.state) && !holdsNothing(old.state)) {
        this.#onLost(old, `the engine is ${next.state}: ${next.reason}`);
      }
    }
    this.#onChange();
  }

  /** Keep the last words of models that nobody serves any more; of so many, that names cannot fill the memory. */
  #remember(before: readonly WorkerInfo[]): void {
    for (const model of this.#groups.keys()) this.#departed.delete(model);
    for (const worker of before) {
      for (const model of worker.models) {
        if (this.#groups.has(model)) continue;
        const gone: WorkerInfo = { ...worker, state: "down", reason: "its engine was taken out" };
        this.#departed.set(model, { model, workers: [gone], ready: [] });
      }
    }
    for (const model of this.#departed.keys()) {
      if (this.#departed.size <= MAX_DEPARTED) break;
      this.#departed.delete(model);
    }
  }

  /** Find out who has nobody to work with, before it is asked who takes requests. */
  #pair(groups: ReadonlyMap<string, readonly WorkerInfo[]>): void {
    this.#unpaired.clear();
    this.#cautions.clear();
    if (!this.#splits || this.#workers.every(({ role }) => role === "both")) return;
    const paired = new Set<WorkerId>();
    for (const workers of groups.values()) {
      const ready = workers.filter((w) => w.role !== "both" && w.state === "ready" && this.#markOf(w) === undefined);
      const { unpaired, cautions } = partsOf(ready);
      for (const worker of ready) {
        const caution = cautions.get(worker.id);
        if (caution !== undefined) this.#cautions.set(worker.id, caution);
        const why = unpaired.get(worker.id);
        if (why === undefined) paired.add(worker.id);
        else this.#unpaired.set(worker.id, why);
      }
    }
    for (const id of paired) this.#unpaired.delete(id);
  }

  #regroup(): void {
    const groups = new Map<string, WorkerInfo[]>();
    for (const worker of this.#workers) {
      for (const model of worker.models) {
        const group = groups.get(model);
        if (group === undefined) groups.set(model, [worker]);
        else group.push(worker);
      }
    }
    this.#pair(groups);
    this.#groups = new Map(
      [...groups].map(([model, workers]) => {
        const able = workers.filter((w) => this.whyNot(w) === undefined);
        return [model, { model, workers, ready: this.#preferred(able) }];
      }),
    );
  }
}

/**
 * The group of a model that a client asked for.
 * @throws CgnError MODEL_NOT_FOUND naming the models there are; NO_WORKER when none of its workers is ready
 */
export function findGroup(fleet: Fleet, model: string): ModelGroup {
  const group = fleet.group(model) ?? fleet.departed(model);
  if (group === undefined) {
    // An engine that has not said yet what it serves, or that has not announced itself yet, may be the one.
    const silent = fleet.workers().filter((w) => w.models.length === 0);
    const unknown = silent.length === 0 && fleet.workers().length > 0;
    throw unknown ? modelNotFound(fleet, model) : noWorker(fleet, { model, workers: silent, ready: [] });
  }
  if (group.ready.length === 0) throw noWorker(fleet, group);
  return group;
}

/** Nobody serves this model: with the names there are. */
export function modelNotFound(fleet: Fleet, model: string): CgnError {
  const known = fleet.models();
  const there = known.length === 0 ? "There is none yet" : `There is ${known.map((m) => `"${m}"`).join(", ")}`;
  const message = `Cannot find model "${model}": no engine serves it. ${there}`;
  return new CgnError("MODEL_NOT_FOUND", message, { model, known, param: "model" } as {
    model: string;
    known: readonly string[];
  }) as CgnError;
}

/** No worker of the group takes requests: with each one's reason. */
export function noWorker(fleet: Fleet, group: ModelGroup): CgnError {
  const reasons = Object.fromEntries(group.workers.map((w) => [w.id, fleet.whyNot(w) ?? "failed for this request"]));
  const said = Object.entries(reasons).map(([id, why]) => `${id} ${why}`);
  const why = said.length === 0 ? "none has announced itself" : said.join("; ");
  const message = `Cannot route model "${group.model}": no engine is ready (${why}). Try again in ${RETRY_AFTER_S} s`;
  return new CgnError("NO_WORKER", message, { model: group.model, reasons, retryAfterS: RETRY_AFTER_S }) as CgnError;
}
