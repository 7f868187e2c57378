import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { MatchQuery, PrefixKnowledge } from "../core/prefix-knowledge.ts";
import { textHash } from "../routing/rendezvous.ts";

/** So many prompts are compared, and so much of each: 8 MB at most. */
const KEPT = 512;
const KEPT_BYTES = 16 * 1024;
/** More requests a second than this are not looked at: a prefix that matters shows among these. */
const PER_SECOND = 20;
/** What is shorter is the template's beginning, which all prompts share. */
const LEAST_BYTES = 64;

interface Sample extends MatchQuery {
  readonly id: string;
  readonly atMs: number;
}

/** A beginning that several of the last prompts share. */
export interface HotPrefix {
  /** Names it; the same prefix has the same name in every router. */
  readonly hash: string;
  readonly model: string;
  /** Of the prompts that were looked at. */
  readonly requests: number;
  readonly bytes: number;
  /** It goes on beyond what is compared. */
  readonly longer: boolean;
  /** The newest request that begins so. */
  readonly last: { readonly id: string; readonly atMs: number };
  /** Who has it in its cache, how much of it, and in which tier at the slowest. */
  readonly holders: readonly { readonly worker: WorkerId; readonly tokens: number; readonly tier: string }[];
}

/** What the last prompts have in common. Bytes stay in memory here and are never told: a prefix is named by a hash. */
export class HotPrefixes {
  readonly #clock: Clock;
  readonly #ring: Sample[] = [];
  #next = 0;
  #second = 0;
  #taken = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note(id: string, { model, root, prompt }: MatchQuery): void {
    const second = Math.floor(this.#clock.now() / 1_000);
    if (second !== this.#second) [this.#second, this.#taken] = [second, 0];
    if (++this.#taken > PER_SECOND || prompt.length < LEAST_BYTES) return;
    // A copy: the rest of the prompt may be given back.
    this.#ring[this.#next] = { id, atMs: this.#clock.wall(), model, root, prompt: prompt.slice(0, KEPT_BYTES) };
    this.#next = (this.#next + 1) % KEPT;
  }

  /** The hottest first: by how many bytes had not to be computed again if all of it was cached. */
  async hottest(
    knowledge: PrefixKnowledge,
    most = 20,
  ): Promise<{ readonly looked: number; readonly prefixes: HotPrefix[] }> {
    const chosen = sharedPrefixes(this.#ring).slice(0, most);
    const prefixes = await Promise.all(
      chosen.map(async ({ samples, bytes }): Promise<HotPrefix> => {
        const newest = samples.reduce((a, b) => (b.atMs > a.atMs ? b : a));
        const prompt = newest.prompt.subarray(0, bytes);
        const held = await knowledge.match({ model: newest.model, root: newest.root, prompt });
        return {
          hash: nameOf(newest.root, prompt),
          model: newest.model,
          requests: samples.length,
          bytes,
          longer: bytes >= KEPT_BYTES,
          last: { id: newest.id, atMs: newest.atMs },
          holders: held
            .filter(({ tokens }) => tokens > 0)
            .map(({ worker, tokens, tier }) => ({ worker, tokens, tier }))
            .sort((a, b) => b.tokens - a.tokens),
        };
      }),
    );
    return { looked: this.#ring.length, prefixes };
  }
}

interface Shared {
  readonly samples: readonly Sample[];
  readonly bytes: number;
  readonly gain: number;
}

/** All beginnings that at least two samples share and that are longest for those samples; the most gain first. */
export function sharedPrefixes(samples: readonly Sample[]): readonly Shared[] {
  const found: Shared[] = [];
  const groups = Map.groupBy(samples, ({ model, root }) => JSON.stringify([model, root]));
  for (const group of groups.values()) {
    const sorted = [...group].sort((a, b) => Buffer.compare(a.prompt, b.prompt));
    const common = sorted.slice(1).map((sample, i) => commonBytes(sorted[i]!.prompt, sample.prompt));
    addShared(sorted, common, 0, sorted.length, 0, found);
  }
  return found.sort((a, b) => b.gain - a.gain);
}

/** `sorted[from..to)` share `above` bytes already: find what they and their parts share beyond. */
function addShared(
  sorted: readonly Sample[],
  common: readonly number[],
  from: number,
  to: number,
  above: number,
  found: Shared[],
): void {
  const open: { from: number; to: number; above: number }[] = [{ from, to, above }];
  for (let range = open.pop(); range !== undefined; range = open.pop()) {
    if (range.to - range.from < 2) continue;
    let least = Number.POSITIVE_INFINITY;
    for (let i = range.from; i < range.to - 1; i++) least = Math.min(least, common[i]!);
    if (least >= LEAST_BYTES && least > range.above) {
      const count = range.to - range.from;
      found.push({
        samples: sorted.slice(range.from, range.to),
        bytes: least,
        gain: (count - 1) * (least - range.above),
      });
    }
    let start = range.from;
    for (let i = range.from; i < range.to; i++) {
      if (i < range.to - 1 && common[i]! > least) continue;
      if (i + 1 - start < range.to - range.from)
        open.push({ from: start, to: i + 1, above: Math.max(least, range.above) });
      start = i + 1;
    }
  }
}

function commonBytes(a: Uint8Array, b: Uint8Array): number {
  const end = Math.min(a.length, b.length);
  let i = 0;
  while (i < end && a[i] === b[i]) i++;
  return i;
}

function nameOf(root: string, prompt: Uint8Array): string {
  let a = textHash(root);
  let b = ~a;
  for (const byte of prompt) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte, 0x5bd1e995);
    b ^= b >>> 15;
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}
