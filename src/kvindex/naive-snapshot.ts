import type { BlockName } from "../core/kv-event.ts";
import type { HistoryEntry } from "./history.ts";
import type { Named, Node, Worker } from "./naive-index.ts";
import type { TokenMark, WorkerSlot } from "./prefix-index.ts";
import { TIERS } from "./tiers.ts";

/** One position that a worker holds, told from the nearest position above that it holds too, or from the root. */
interface SavedBlock {
  readonly root: string;
  readonly parent: BlockName | undefined;
  /** Latin-1 text of each block from there on; the last one is this position's. */
  readonly texts: readonly string[];
  readonly names: readonly { readonly name: BlockName; readonly tiers: readonly number[]; readonly counted: boolean }[];
  /** Tiers that a correction hides. */
  readonly hidden: readonly number[];
}

interface SavedPrompt {
  readonly root: string;
  readonly bytes: Uint8Array;
  readonly marks: readonly TokenMark[];
  readonly limit: number;
}

interface Loaded {
  readonly blockTokens: number;
  readonly blocks: readonly SavedBlock[];
  readonly prompts: readonly SavedPrompt[];
}

const BLOCKS_A_CHUNK = 100;
const encoder = new TextEncoder();

/** What a worker holds as it is now, as JSON: meant for small tests. */
export function saveNaive(
  seed: number,
  slot: WorkerSlot,
  worker: Worker,
  roots: ReadonlyMap<string, Node>,
  prompts: readonly HistoryEntry[],
): readonly Uint8Array[] {
  const namesAt = Map.groupBy(worker.names, ([, { node }]) => node);
  const blocks: SavedBlock[] = [];
  const visit = (root: string, node: Node, parent: BlockName | undefined, above: readonly string[]): void => {
    for (const [text, next] of node.blocks) {
      const texts = [...above, text];
      const names = namesAt.get(next);
      if (names === undefined) visit(root, next, parent, texts);
      else {
        blocks.push({ root, parent, texts, names: names.map(savedName), hidden: hiddenTiers(next, slot) });
        visit(root, next, names[0]![0], []);
      }
    }
  };
  for (const [root, node] of roots) visit(root, node, undefined, []);
  const parts: Omit<Loaded, "blockTokens">[] = prompts.map((prompt) => ({ blocks: [], prompts: [prompt] }));
  for (let at = 0; at < blocks.length; at += BLOCKS_A_CHUNK)
    parts.push({ blocks: blocks.slice(at, at + BLOCKS_A_CHUNK), prompts: [] });
  return parts.map((part) => encoder.encode(JSON.stringify({ seed, blockTokens: worker.blockTokens, ...part }, pack)));
}

function savedName([name, { tiers, counted }]: readonly [BlockName, Named]) {
  return { name, tiers: TIERS.map((_, tier) => tier).filter((tier) => (tiers & (1 << tier)) !== 0), counted };
}

function hiddenTiers(node: Node, slot: WorkerSlot): readonly number[] {
  return TIERS.map((_, tier) => tier).filter((tier) => node.held.get(slot)![2 * tier]!.hidden);
}

/** Read a chunk; undefined when it is not one, or of another seed. */
export function loadNaive(seed: number, chunk: Uint8Array): Loaded | undefined {
  try {
    const loaded = JSON.parse(new TextDecoder().decode(chunk), unpack) as Loaded & { readonly seed: number };
    return loaded.seed === seed ? loaded : undefined;
  } catch {
    return undefined;
  }
}

function pack(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: String(value) };
  return value instanceof Uint8Array ? { bytes: [...value] } : value;
}

function unpack(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if ("bigint" in value) return BigInt(value.bigint as string);
  return "bytes" in value && Object.keys(value).length === 1 ? Uint8Array.from(value.bytes as number[]) : value;
}
