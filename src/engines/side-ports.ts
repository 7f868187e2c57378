import { SIDE_PORTS } from "./engine.ts";

/** Most data-parallel ranks whose KV events get ports of their own. */
export const MAX_EVENT_RANKS = 16;

/** Most data-parallel ranks whose NIXL side channels and KVBM leaders get ports of their own. */
export const MAX_TRANSFER_RANKS = 8;

/** KVBM's event consolidator binds this far above the leader's PUB port (Dynamo, KVBM 1.6.1): in another engine's range. */
const CONSOLIDATOR_DISTANCE = 1000;

/**
 * Where each side port lies in the `SIDE_PORTS` ports of an engine, so that no two engines of a host meet.
 *
 * | offset | port | how many |
 * | --- | --- | --- |
 * | 0..15 | KV events, ZMQ PUB | one a DP rank (vLLM and SGLang add the rank to the port) |
 * | 16 | SGLang bootstrap | 1 |
 * | 17, 18, 19 | LMCache server, its HTTP, its Prometheus | 1 each |
 * | 20..35 | KVBM leader: rank N has PUB at 20 + 2N, ACK at PUB + 1 | two a DP rank |
 * | 36..51 | KV event replay, ZMQ ROUTER | one a DP rank |
 * | 52..59 | NIXL side channel | one a DP rank |
 * | 60 | left free: KVBM's consolidator of the engine 15 ranges below (20 + 1000 = 15 × 64 + 60) | |
 * | 61 | KVBM metrics | 1 |
 */
export const SIDE_PORT = {
  kvEvents: 0,
  bootstrap: 16,
  lmcache: 17,
  lmcacheHttp: 18,
  lmcachePrometheus: 19,
  kvbmPub: 20,
  kvbmAck: 21,
  kvReplay: 36,
  nixlSideChannel: 52,
  kvbmConsolidatorOfOther: 60,
  kvbmMetrics: 61,
} as const;

export type SidePort = keyof typeof SIDE_PORT;

/** The port number of a side port for an engine's slot. */
export function sidePort(slot: { readonly sidePortBase: number }, which: SidePort): number {
  return slot.sidePortBase + SIDE_PORT[which];
}

/** Offset, in the range it falls into, of the consolidator port that KVBM derives from its PUB port. */
export function consolidatorOffset(): number {
  return (SIDE_PORT.kvbmPub + CONSOLIDATOR_DISTANCE) % SIDE_PORTS;
}
