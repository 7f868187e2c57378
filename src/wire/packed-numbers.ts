/** Numbers as the wire has them in a byte string: little endian, without a gap. */

/** Pack engine names, 8 bytes each. */
export function packNames(names: ArrayLike<bigint>): Uint8Array {
  const bytes = new Uint8Array(8 * names.length);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < names.length; i++) view.setBigUint64(8 * i, names[i]!, true);
  return bytes;
}

/** Read packed names; bytes beyond the last whole one are left out. */
export function unpackNames(bytes: Uint8Array): BigUint64Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const names = new BigUint64Array(Math.floor(bytes.byteLength / 8));
  for (let i = 0; i < names.length; i++) names[i] = view.getBigUint64(8 * i, true);
  return names;
}

/** Pack the first `count` numbers, 4 bytes each. */
export function packEnds(ends: Uint32Array, count: number): Uint8Array {
  const bytes = new Uint8Array(4 * count);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < count; i++) view.setUint32(4 * i, ends[i]!, true);
  return bytes;
}

export function unpackEnds(bytes: Uint8Array): Uint32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const ends = new Uint32Array(Math.floor(bytes.byteLength / 4));
  for (let i = 0; i < ends.length; i++) ends[i] = view.getUint32(4 * i, true);
  return ends;
}
