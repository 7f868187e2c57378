import { alloc, free } from "./heap";
import { LENGTH_BYTES, LENGTH_COUNT, LENGTH_NEXT, RUN_LENGTHS } from "./layout";

/** The lengths that a run's children begin with. */

/** One child more begins with a block of so many bytes; false when there is no memory. */
export function countLength(run: u32, bytes: u32): bool {
  for (let at: u32 = load<u32>(run, RUN_LENGTHS); at !== 0; at = load<u32>(at, LENGTH_NEXT)) {
    if (load<u32>(at, LENGTH_BYTES) !== bytes) continue;
    store<u32>(at, load<u32>(at, LENGTH_COUNT) + 1, LENGTH_COUNT);
    return true;
  }
  const at = newLength(bytes, load<u32>(run, RUN_LENGTHS));
  if (at !== 0) store<u32>(run, at, RUN_LENGTHS);
  return at !== 0;
}

/** A length that one child has; 0 when there is no memory. */
export function newLength(bytes: u32, following: u32): u32 {
  const at = alloc(1);
  if (at === 0) return 0;
  store<u32>(at, bytes, LENGTH_BYTES);
  store<u32>(at, 1, LENGTH_COUNT);
  store<u32>(at, following, LENGTH_NEXT);
  store<u32>(at, 0, 12);
  return at;
}

/** One child less does. */
export function uncountLength(run: u32, bytes: u32): void {
  let link: u32 = run + RUN_LENGTHS;
  while (load<u32>(load<u32>(link), LENGTH_BYTES) !== bytes) link = load<u32>(link) + LENGTH_NEXT;
  const at: u32 = load<u32>(link);
  const count = load<u32>(at, LENGTH_COUNT) - 1;
  store<u32>(at, count, LENGTH_COUNT);
  if (count > 0) return;
  store<u32>(link, load<u32>(at, LENGTH_NEXT));
  free(at, 1);
}
