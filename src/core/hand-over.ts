import type { Peering } from "./host-needs.ts";

/**
 * How a prefill engine's KV reaches the decode engine.
 *
 * - `pull`: the prefill leg is over first; its answer carries parameters, the decode engine reads the blocks (vLLM, NixlConnector).
 * - `push`: both legs at once; the prefill engine writes the blocks (vLLM, NixlPushConnector).
 * - `bootstrap`: both legs at once; they meet in a room of the prefill's bootstrap server (SGLang).
 */
export const HAND_OVER_PROTOCOLS = ["pull", "push", "bootstrap"] as const;

export type HandOverProtocol = (typeof HAND_OVER_PROTOCOLS)[number];

/** The part that an engine can take in handing KV over, as its agent announces it. */
export interface HandOver {
  readonly protocol: HandOverProtocol;
  /** What must agree with the other end; absent where nobody knows (an engine that somebody else started). */
  readonly peering?: Peering;
  /** Engines of one group work together; `[[engines]].group`. */
  readonly group?: string;
  /** Where the decode engine finds the prefill: its bootstrap server (SGLang), its side channel (push). */
  readonly host?: string;
  readonly port?: number;
  /** `push`: the prefill's `engine_id`, which the decode engine must be told. */
  readonly engineId?: string;
}
