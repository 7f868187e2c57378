import { open } from "node:fs/promises";

/** A header longer than this is not read to its end; the file must hold it all the same. Real ones have some 100 KiB. */
const READ_HEADER_BYTES = 32 * 1024 ** 2;

/** What a file of a format must begin with. Others (pickles, archives) only must not be zeros. */
const GGUF_MAGIC = "GGUF";

/**
 * Can this file hold the weights that its first bytes promise? A download that did not end leaves a file that is cut, or one of
 * zeros that was made at its full size. Reads the head only.
 * @param format by its name's end, else by what the engine loads
 */
export async function isWhole(path: string, bytes: number, format: "gguf" | "safetensors" | "other"): Promise<boolean> {
  const handle = await open(path, "r").catch(() => undefined);
  // Whether it may be read is told elsewhere.
  if (handle === undefined) return true;
  try {
    const read = async (length: number, at: number): Promise<Buffer> => {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, at);
      return buffer.subarray(0, bytesRead);
    };
    const head = await read(8, 0);
    if (format === "gguf") return head.toString("latin1", 0, 4) === GGUF_MAGIC;
    if (format === "other") return head.some((byte) => byte !== 0);
    return await holdsTensors(head, bytes, read);
  } finally {
    await handle.close();
  }
}

/** safetensors: the header's length (u64, little endian), the header in JSON, then the tensors at offsets that it tells. */
async function holdsTensors(
  head: Buffer,
  bytes: number,
  read: (length: number, at: number) => Promise<Buffer>,
): Promise<boolean> {
  if (head.length < 8) return false;
  const length = Number(head.readBigUInt64LE(0));
  if (length < 2 || 8 + length > bytes) return false;
  if (length > READ_HEADER_BYTES) return true;
  const end = lastOffset((await read(length, 8)).toString("utf8"));
  return end !== undefined && 8 + length + end <= bytes;
}

/** Where the last tensor ends; undefined: the text is no header. */
function lastOffset(text: string): number | undefined {
  try {
    const header = JSON.parse(text) as Record<string, { readonly data_offsets?: readonly number[] }>;
    return Object.values(header).reduce((most, tensor) => Math.max(most, tensor?.data_offsets?.[1] ?? 0), 0);
  } catch {
    return undefined;
  }
}

/** The files that an index (`model.safetensors.index.json`) says the weights are in; none when it cannot be read. */
export async function shardsOf(index: string): Promise<string[]> {
  const handle = await open(index, "r").catch(() => undefined);
  if (handle === undefined) return [];
  try {
    const { weight_map: map } = JSON.parse(await handle.readFile("utf8")) as { weight_map?: Record<string, unknown> };
    return [...new Set(Object.values(map ?? {}).filter((name) => typeof name === "string"))];
  } catch {
    return [];
  } finally {
    await handle.close();
  }
}
