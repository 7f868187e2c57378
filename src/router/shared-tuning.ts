import { isDeepStrictEqual } from "node:util";
import { overlayShared, type SharedProblem, type SharedTuning as Tuned } from "../config/shared-keys.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Membership } from "../core/membership.ts";
import { createPolicy } from "../routing/policies.ts";

/** What the cluster's shared settings make of a router's own, now and after each change. */
export class SharedTuning {
  readonly #membership: Membership;
  readonly #log: Log;
  #base: Tuned;
  #values: ReadonlyMap<string, string>;

  constructor(base: Tuned, membership: Membership, log: Log) {
    this.#base = partOf(base);
    this.#membership = membership;
    this.#log = log;
    this.#values = this.#now();
  }

  /** The file's settings with what is shared laid over them. A value that this version does not understand is told once. */
  current(): Tuned {
    const { tuning, problems } = overlayShared(this.#base, this.#values);
    for (const { key, problem } of problems) {
      this.#log.once(`shared/${key}/${problem}`).warn("A shared setting does not count", { key, problem });
    }
    return tuning;
  }

  /** The file was read anew. */
  rebase(base: Tuned): Tuned {
    this.#base = partOf(base);
    return this.current();
  }

  /** After a change in the cluster: the settings that hold from now on; undefined: none of these changed. */
  changed(): Tuned | undefined {
    const values = this.#now();
    if (values === this.#values || isDeepStrictEqual(values, this.#values)) return undefined;
    this.#values = values;
    this.#log.info("Settings that all routers share changed", Object.fromEntries(values));
    return this.current();
  }

  /** What is shared and does not count, since this version does not understand it. */
  problems(): readonly SharedProblem[] {
    return overlayShared(this.#base, this.#values).problems;
  }

  /** For the admin port: what is shared, and what holds. */
  status(): object {
    const { tuning, problems } = overlayShared(this.#base, this.#values);
    return {
      source: this.#membership.health().source,
      writable: this.#membership.shared !== undefined,
      shared: Object.fromEntries(this.#values),
      holds: tuning,
      ...(problems.length === 0 ? {} : { problems }),
    };
  }

  /**
   * Write for all routers; checked before.
   * @param changes texts by key; undefined takes one off
   * @throws CgnError REQUEST_INVALID, NOT_SUPPORTED, DEPENDENCY_UNREACHABLE; nothing has changed then
   */
  async share(changes: ReadonlyMap<string, string | undefined>): Promise<void> {
    const { shared } = this.#membership;
    if (shared === undefined) {
      const { source } = this.#membership.health();
      const is = `the cluster's state is kept by ${source}, which has no place for it`;
      const should = 'Write it in the file and use cgn reload, or set [cluster].state_backend = "etcd"';
      throw new CgnError("NOT_SUPPORTED", `Cannot share a setting: ${is}. ${should}`, {});
    }
    const written = new Map(
      [...changes].flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const])),
    );
    const next = overlayShared(this.#base, new Map([...this.#values, ...written]));
    const problem = next.problems.find(({ key }) => written.has(key));
    if (problem !== undefined) {
      throw new CgnError("REQUEST_INVALID", `Cannot share a setting: ${problem.problem}`, { param: problem.key });
    }
    createPolicy(next.tuning.policy, { weights: next.tuning.scoreWeights, seed: 1 });
    await shared.change(changes);
  }

  #now(): ReadonlyMap<string, string> {
    return this.#membership.shared?.values() ?? new Map();
  }
}

/** No more than may be shared: the rest of `[router]` is told to nobody. */
const partOf = ({ policy, scoreWeights, admission }: Tuned): Tuned => ({ policy, scoreWeights, admission });
