/** The few shapes of ASN.1's DER that a certificate is made of. */

/** One value: its tag, its length, its content. */
export function der(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(body.length)]), body]);
}

function lengthOf(length: number): readonly number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return [0x80 | bytes.length, ...bytes];
}

/** The values inside one value, each whole. */
export function childrenOf(value: Uint8Array): readonly Buffer[] {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const found: Buffer[] = [];
  for (let at = bytes.length - contentLength(bytes, 0).length; at < bytes.length; ) {
    const { header, length } = contentLength(bytes, at);
    found.push(bytes.subarray(at, at + header + length));
    at += header + length;
  }
  return found;
}

/** How long the value at `at` is: its tag with its length, and its content. */
function contentLength(bytes: Buffer, at: number): { readonly header: number; readonly length: number } {
  const first = bytes[at + 1] ?? 0;
  if (first < 0x80) return { header: 2, length: first };
  const more = first & 0x7f;
  return { header: 2 + more, length: bytes.readUIntBE(at + 2, more) };
}

export const sequence = (...content: readonly Uint8Array[]): Buffer => der(0x30, ...content);
export const setOf = (...content: readonly Uint8Array[]): Buffer => der(0x31, ...content);
export const octets = (content: Uint8Array): Buffer => der(0x04, content);
export const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text));
export const boolean = (value: boolean): Buffer => der(0x01, Buffer.from([value ? 0xff : 0]));

/** A whole number that is not negative, as its bytes with the highest first. */
export function integer(bytes: Uint8Array): Buffer {
  const from = bytes.findIndex((byte) => byte !== 0);
  const rest = from < 0 ? Buffer.from([0]) : Buffer.from(bytes.subarray(from));
  return der(0x02, (rest[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), rest]) : rest);
}

/** @param unused bits at the end that do not count */
export function bits(content: Uint8Array, unused = 0): Buffer {
  return der(0x03, Buffer.from([unused]), content);
}

/** An object identifier in dots. */
export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const bytes = [40 * first + second, ...rest].flatMap((part) => {
    const groups = [part % 128];
    for (let left = Math.floor(part / 128); left > 0; left = Math.floor(left / 128))
      groups.unshift((left % 128) | 0x80);
    return groups;
  });
  return der(0x06, Buffer.from(bytes));
}

/** A time in UTC, to the second: RFC 5280 wants two digits of the year before 2050. */
export function time(date: Date): Buffer {
  const text = `${date.toISOString().slice(0, 19).replace(/[-:T]/g, "")}Z`;
  return date.getUTCFullYear() < 2050 ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text));
}
