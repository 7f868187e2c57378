import { alloc, free } from "./heap";
import {
  DIGEST_BLOCKS,
  FLAG_HASHED,
  RUN_DIGEST_COUNT,
  RUN_DIGEST_ROOM,
  RUN_DIGESTS,
  RUN_FLAGS,
  RUN_LENGTH,
  UNIT,
} from "./layout";

/** Where a run's digests lie. What they are is said in compare.ts. */

/** Room for digests of a run that has none. */
export function giveDigests(run: u32, digests: u32, room: u32): void {
  for (let at = digests; at < digests + UNIT * room; at += UNIT) store<u32>(at, 0, 12);
  store<u32>(run, digests, RUN_DIGESTS);
  store<u32>(run, room, RUN_DIGEST_ROOM);
}

/** Forget a run's digests. */
export function freeDigests(run: u32): void {
  free(load<u32>(run, RUN_DIGESTS), load<u32>(run, RUN_DIGEST_ROOM));
  store<u32>(run, 0, RUN_DIGESTS);
  store<u32>(run, 0, RUN_DIGEST_ROOM);
  store<u16>(run, 0, RUN_DIGEST_COUNT);
}

/** Digests go to a run without any that begins where theirs does. */
export function moveDigests(from: u32, to: u32): void {
  store<u32>(to, load<u32>(from, RUN_DIGESTS), RUN_DIGESTS);
  store<u32>(to, load<u32>(from, RUN_DIGEST_ROOM), RUN_DIGEST_ROOM);
  store<u16>(to, load<u16>(from, RUN_DIGEST_COUNT), RUN_DIGEST_COUNT);
  const flags = load<u32>(to, RUN_FLAGS) & ~FLAG_HASHED;
  store<u32>(to, flags | (load<u32>(from, RUN_FLAGS) & FLAG_HASHED), RUN_FLAGS);
  store<u32>(from, 0, RUN_DIGESTS);
  store<u32>(from, 0, RUN_DIGEST_ROOM);
  store<u16>(from, 0, RUN_DIGEST_COUNT);
}

/** A run has become shorter. */
export function cutDigests(run: u32): void {
  const most = load<u32>(run, RUN_LENGTH) / DIGEST_BLOCKS;
  if (load<u16>(run, RUN_DIGEST_COUNT) > <u16>most) store<u16>(run, <u16>most, RUN_DIGEST_COUNT);
}

/** Room for a run's digests; as many as it has blocks for. */
export function ensureDigests(run: u32, count: u32, needed: u32): bool {
  if (needed <= load<u32>(run, RUN_DIGEST_ROOM)) return true;
  const room = load<u32>(run, RUN_LENGTH) / DIGEST_BLOCKS;
  const digests = alloc(room);
  if (digests === 0) return false;
  memory.copy(digests, load<u32>(run, RUN_DIGESTS), UNIT * count);
  freeDigests(run);
  store<u32>(run, digests, RUN_DIGESTS);
  store<u32>(run, room, RUN_DIGEST_ROOM);
  store<u16>(run, <u16>count, RUN_DIGEST_COUNT);
  return true;
}
