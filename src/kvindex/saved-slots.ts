import { copied } from "./first-difference.ts";
import type { TokenMark } from "./prefix-index.ts";
import { type KeptPrompt, keptPrompt, type Slot, type SlotState } from "./slot-cache.ts";

/** A `SlotCache` as a plain value. Prompts stand once in `kept`, and are named by their place there; -1 for none. */
export interface SavedSlots {
  readonly uses: number;
  readonly kept: readonly { readonly root: string; readonly bytes: Uint8Array; readonly marks: readonly TokenMark[] }[];
  readonly slots: readonly { readonly kept: number; readonly used: number; readonly run: SavedRun | undefined }[];
  /** Oldest first. */
  readonly store: readonly number[];
}

interface SavedRun {
  readonly root: string;
  readonly prompt: Uint8Array;
  readonly covered: number;
  readonly from: number;
}

/** Write down a state. */
export function saveSlots(state: SlotState, uses: number): SavedSlots {
  const places = new Map<KeptPrompt, number>();
  const place = (kept: KeptPrompt | undefined): number => {
    if (kept === undefined) return -1;
    const known = places.get(kept) ?? places.size;
    places.set(kept, known);
    return known;
  };
  const slots = state.slots.map(({ kept, run, used }) => ({
    kept: place(kept),
    used,
    run: run === undefined ? undefined : { ...part(run), covered: run.covered, from: place(run.from) },
  }));
  const store = state.store.map(place);
  const kept = [...places.keys()].map(({ root, bytes, marks }) => ({ root, bytes, marks }));
  return { uses, kept, slots, store };
}

const part = ({ root, prompt }: { root: string; prompt: Uint8Array }) => ({ root, prompt });

/** Make the state again; slots that `empty` has more stay empty. @throws RangeError */
export function restoreSlots(saved: SavedSlots, empty: SlotState): SlotState {
  const kept = saved.kept.map(({ root, bytes, marks }) => keptPrompt(root, copied(bytes), marks));
  const at = (place: number): KeptPrompt | undefined => {
    if (place !== -1 && kept[place] === undefined)
      throw new RangeError(`Cannot restore slots: there is no prompt ${place}`);
    return kept[place];
  };
  const slots = empty.slots.map((slot, index): Slot => {
    const was = saved.slots[index];
    if (was === undefined) return slot;
    const { run, used } = was;
    const from = run === undefined ? undefined : at(run.from);
    return {
      kept: at(was.kept),
      used,
      run: run && { root: run.root, prompt: copied(run.prompt), slot: index, covered: run.covered, from },
    };
  });
  return { slots, store: saved.store.map(at).filter((each) => each !== undefined) };
}
