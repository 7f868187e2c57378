import type { HandOver } from "../core/hand-over.ts";

/** JSON text of top-level members of a request's body to set; undefined removes one. */
export type BodyEdits = Readonly<Record<string, string | undefined>>;

type Json = Readonly<Record<string, unknown>>;

/** What the bodies of both legs of one try are made of. Used for one try only: another try has another one. */
export interface Legs {
  readonly prefill: HandOver;
  readonly decode: HandOver;
  /** Data-parallel rank that computes the prompt, where the prefill engine has several. */
  readonly prefillRank?: number;
  /** The client's body. */
  readonly body: Json;
  /** A name that no other try has. */
  readonly tryId: string;
  /** A random number from 0 to 2^53 - 1 for each `index`, the same whenever it is asked for. */
  room(index: number): number;
}

/** What a prefill leg's answer says. */
export type PrefillAnswer =
  /** The decode leg goes on with these edits. */
  | { readonly type: "handed-over"; readonly edits: BodyEdits; readonly cachedTokens?: number }
  /** Its KV is not kept for anybody: the decode engine must compute the prompt. */
  | { readonly type: "nothing-held"; readonly cachedTokens?: number };

/**
 * An engine's prefill → decode protocol, as pure functions on bodies. `disaggregate.ts` of the router drives them.
 */
export interface Disaggregation {
  /** Members by which clients could act on the hand-over: taken out of what they send. */
  readonly ownMembers: readonly string[];
  /**
   * The part of an engine that somebody else started, of which nobody knows how.
   * @param host of its URL
   * @param port of its bootstrap server, where it was said
   */
  adopted(role: "prefill" | "decode", host: string, port: number | undefined): HandOver;
  /** Both legs run at the same time. */
  isTogether(prefill: HandOver): boolean;
  /**
   * Why this request must not be split, for people; undefined: it may.
   * @param path of the request, `/v1/chat/completions`
   */
  whyWhole(path: string, body: Json): string | undefined;
  prefillEdits(legs: Legs): BodyEdits;
  /** The decode leg's body where legs run together; else what `readPrefill()` gives counts. */
  decodeEdits(legs: Legs): BodyEdits;
  /** Read the whole answer of a prefill leg that answered 200. */
  readPrefill(answer: unknown): PrefillAnswer;
  /**
   * For a decode engine that only makes the prefill's engine let its blocks go, when the request is not wanted any more.
   * Undefined: nothing can be done, or nothing is left behind.
   */
  releaseEdits?(handedOver: BodyEdits): BodyEdits;
}
