const encoder = new TextEncoder();

/**
 * The byte of each character in byte-level BPE spelling, from GPT-2 on: printable Latin-1 bytes stand for themselves, the
 * 68 others for the characters from U+0100 on, in order.
 */
const BYTE_OF_CHAR: ReadonlyMap<string, number> = byteCharacters();

function byteCharacters(): Map<string, number> {
  const bytes = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
    bytes.set(String.fromCodePoint(itself ? byte : next++), byte);
  }
  return bytes;
}

/**
 * A token's spelling in a byte-level vocabulary as the bytes it stands for (`Ġthe` is ` the`). Characters outside the
 * alphabet (in tokens added later) stand for themselves in UTF-8.
 */
export function fromByteLevel(spelling: string): Uint8Array {
  const bytes: number[] = [];
  for (const char of spelling) {
    const byte = BYTE_OF_CHAR.get(char);
    if (byte === undefined) bytes.push(...encoder.encode(char));
    else bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

/** SentencePiece writes a space as U+2581. */
const SPACE_MARK = /\u2581/g;

/** A token's spelling in a SentencePiece vocabulary as bytes: `▁the` is ` the`, `<0x0A>` is one byte. */
export function fromSentencePiece(spelling: string): Uint8Array {
  const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(spelling);
  if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
  return encoder.encode(spelling.replace(SPACE_MARK, " "));
}
