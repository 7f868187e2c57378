import type { ChainVerdict } from "../prompt/chain-checker.ts";
import { ChainChecker } from "../prompt/chain-checker.ts";
import type { CheckedModel, FromThread, PostedChain, ToThread } from "./canonicity-messages.ts";
import type { CheckingTools } from "./checking-tools.ts";

/** Prompts compared before the tokenizer may be found unfit, and the share of them that must be so. */
const MIN_PROMPTS = 8;
const UNFIT_SHARE = 0.25;
/** Of what a router sent each so many chains are compared too: they prove the tokenizer. */
const SAMPLE = 64;
/** Names that would count again when the tokenizer is found unfit. */
const MAX_TAKEN_BACK = 8_192;

interface Desk {
  /** Its model, by which workers share a tokenizer. */
  readonly model: string;
  /** Undefined until the tokenizer is there, and when there is none. */
  checker: ChainChecker | undefined;
  /** What came before the tokenizer was there; undefined afterwards. */
  waiting: ToThread[] | undefined;
  certain: number;
  /** Prompts compared, and those that looked uncanonical. */
  prompts: number;
  wrong: number;
  readonly taken: bigint[];
}

/**
 * The thread's side of the canonicity check: one checker a worker, one tokenizer a model.
 *
 * The tokenizer is itself on trial: prompts are canonical by their making, so when they do not look so (a tokenizer of another
 * revision, a pre-tokenizer that our library takes otherwise), nothing more is checked for that worker.
 */
export class CanonicityDesk {
  readonly #desks = new Map<number, Desk>();
  readonly #models = new Map<string, Promise<CheckingTools>>();
  readonly #load: (model: CheckedModel) => Promise<CheckingTools>;
  readonly #post: (message: FromThread) => void;

  constructor(load: (model: CheckedModel) => Promise<CheckingTools>, post: (message: FromThread) => void) {
    this.#load = load;
    this.#post = post;
  }

  take(message: ToThread): void {
    const { slot } = message;
    if (message.type === "follow") return void this.#follow(slot, message.model);
    const desk = this.#desks.get(slot);
    if (message.type === "dropped") {
      this.#desks.delete(slot);
      // Tokenizers are large: the last worker of a model takes it along.
      if (desk !== undefined && ![...this.#desks.values()].some((other) => other.model === desk.model)) {
        this.#models.delete(desk.model);
      }
    } else if (desk?.waiting !== undefined) desk.waiting.push(message);
    else this.#handle(slot, desk, message);
  }

  async #follow(slot: number, model: CheckedModel): Promise<void> {
    const key = JSON.stringify(model);
    const desk: Desk = { model: key, checker: undefined, waiting: [], certain: 0, prompts: 0, wrong: 0, taken: [] };
    this.#desks.set(slot, desk);
    const loading =
      this.#models.get(key) ?? this.#load(model).catch((error) => ({ reason: String(error?.message ?? error) }));
    this.#models.set(key, loading);
    const tools = await loading;
    // What failed is tried again with the next worker: somebody may have mended it.
    if ("reason" in tools) this.#models.delete(key);
    else desk.checker = new ChainChecker(tools.encoder, tools.vocabulary);
    this.#post({ type: "ready", slot, reason: "reason" in tools ? tools.reason : undefined });
    const { waiting = [] } = desk;
    desk.waiting = undefined;
    for (const message of waiting) this.#handle(slot, desk, message);
  }

  #handle(slot: number, desk: Desk | undefined, message: ToThread): void {
    const checker = desk?.checker;
    if (message.type === "cleared") {
      checker?.clear();
      desk?.taken.splice(0);
    } else if (message.type === "answered") {
      if (checker !== undefined && desk !== undefined) this.#say(slot, desk, checker.answered(message.text), 0);
    } else if (message.type === "stored") {
      for (const chain of message.chains) this.#stored(slot, desk, chain);
    }
  }

  #stored(slot: number, desk: Desk | undefined, chain: PostedChain): void {
    const taken = chain.tokenIds.length;
    const checker = desk?.checker;
    if (desk === undefined || checker === undefined) {
      this.#say(slot, desk, NOTHING, taken);
      return;
    }
    const sample = chain.certain && desk.certain++ % SAMPLE === 0;
    const verdict = checker.stored(sample ? { ...chain, certain: false } : chain);
    this.#say(slot, desk, sample ? NOTHING : verdict, taken);
    // Several blocks from the start on are a prompt.
    const prompt = sample || (!chain.certain && chain.parent === undefined && chain.names.length > 1);
    if (prompt) this.#judge(slot, desk, verdict.uncounted.length > 0);
  }

  #judge(slot: number, desk: Desk, wrong: boolean): void {
    desk.prompts++;
    if (wrong) desk.wrong++;
    if (desk.prompts < MIN_PROMPTS || desk.wrong <= desk.prompts * UNFIT_SHARE) return;
    desk.checker = undefined;
    this.#post({ type: "unfit", slot, recounted: BigUint64Array.from(desk.taken) });
  }

  #say(slot: number, desk: Desk | undefined, verdict: ChainVerdict, taken: number): void {
    const { uncounted, checked, unknown } = verdict;
    if (taken === 0 && uncounted.length === 0) return;
    desk?.taken.push(...uncounted);
    if (desk !== undefined && desk.taken.length > MAX_TAKEN_BACK) desk.taken.splice(0, MAX_TAKEN_BACK / 2);
    this.#post({ type: "verdict", slot, uncounted: BigUint64Array.from(uncounted), checked, unknown, taken });
  }
}

const NOTHING: ChainVerdict = { uncounted: [], checked: 0, unknown: 0 };
