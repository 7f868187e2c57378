/** One function of a module: only 32- and 64-bit integers. */
export interface WasmFunction {
  readonly name: string;
  /** Number of i32 parameters: locals 0 … n-1. */
  readonly params: number;
  /** Whether it returns an i32. */
  readonly returnsI32: boolean;
  /** Further i32 locals, after the parameters, and i64 locals after those. */
  readonly i32Locals: number;
  readonly i64Locals: number;
  readonly body: Code;
}

/** Instructions as bytes, nested as is convenient. */
export type Code = readonly (number | Code)[];

const I32 = 0x7f;
const I64 = 0x7e;
const EMPTY_BLOCK = 0x40;

/** An unsigned number as LEB128. */
function unsigned(value: number): number[] {
  const bytes: number[] = [];
  do {
    const low = value & 0x7f;
    value >>>= 7;
    bytes.push(value === 0 ? low : low | 0x80);
  } while (value !== 0);
  return bytes;
}

/** A signed number as LEB128. */
function signed(value: bigint): number[] {
  const bytes: number[] = [];
  for (;;) {
    const low = Number(value & 0x7fn);
    value >>= 7n;
    const done = (value === 0n && (low & 0x40) === 0) || (value === -1n && (low & 0x40) !== 0);
    bytes.push(done ? low : low | 0x80);
    if (done) return bytes;
  }
}

/** The instructions used here, by their names in the WebAssembly specification (core 1, section 5.4). */
export const wasm = {
  get: (local: number): Code => [0x20, unsigned(local)],
  set: (local: number): Code => [0x21, unsigned(local)],
  tee: (local: number): Code => [0x22, unsigned(local)],
  /** `block … end`: `br` out of it goes behind its end. */
  block: (...code: Code[]): Code => [0x02, EMPTY_BLOCK, code, 0x0b],
  /** `loop … end`: `br` to it goes back to its start. */
  loop: (...code: Code[]): Code => [0x03, EMPTY_BLOCK, code, 0x0b],
  /** Takes an i32. */
  if: (then: Code, otherwise: Code): Code => [0x04, EMPTY_BLOCK, then, 0x05, otherwise, 0x0b],
  br: (depth: number): Code => [0x0c, unsigned(depth)],
  brIf: (depth: number): Code => [0x0d, unsigned(depth)],
  /** Loads and stores take an address (and a value) and add a constant offset; no alignment is assumed. */
  load32: (offset: number): Code => [0x28, 0, unsigned(offset)],
  load64: (offset: number): Code => [0x29, 0, unsigned(offset)],
  load8: (offset: number): Code => [0x2d, 0, unsigned(offset)],
  store32: (offset: number): Code => [0x36, 0, unsigned(offset)],
  store64: (offset: number): Code => [0x37, 0, unsigned(offset)],
  i32: (value: number): Code => [0x41, signed(BigInt(value | 0))],
  i64: (value: bigint): Code => [0x42, signed(BigInt.asIntN(64, value))],
  eq32: [0x46] as Code,
  lessUnsigned32: [0x49] as Code,
  greaterUnsigned32: [0x4b] as Code,
  add32: [0x6a] as Code,
  sub32: [0x6b] as Code,
  ne64: [0x52] as Code,
  mul64: [0x7e] as Code,
  or64: [0x84] as Code,
  xor64: [0x85] as Code,
  shl64: [0x86] as Code,
  shrUnsigned64: [0x88] as Code,
  extendUnsigned: [0xad] as Code,
};

/** Assemble and compile a module that imports its memory as `m.m`. */
export function compileModule(functions: readonly WasmFunction[]): WebAssembly.Module {
  const code: Code = [
    [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // "\0asm", version 1
    section(1, vector(functions.map(functionType))),
    section(2, vector([[text("m"), text("m"), 0x02, 0x00, 0]])), // a memory of at least 0 pages
    section(3, vector(functions.map((_, index) => unsigned(index)))),
    section(7, vector(functions.map(({ name }, index) => [text(name), 0x00, unsigned(index)]))),
    section(10, vector(functions.map(functionBody))),
  ];
  return new WebAssembly.Module(Uint8Array.from(flat(code)));
}

function functionType({ params, returnsI32 }: WasmFunction): Code {
  const results: Code[] = returnsI32 ? [[I32]] : [];
  return [0x60, vector(Array.from({ length: params }, () => [I32])), vector(results)];
}

function functionBody({ i32Locals, i64Locals, body }: WasmFunction): Code {
  return sized([
    vector([
      [unsigned(i32Locals), I32],
      [unsigned(i64Locals), I64],
    ]),
    body,
    0x0b,
  ]);
}

function section(id: number, content: Code): Code {
  return [id, sized(content)];
}

function sized(content: Code): Code {
  const bytes = flat(content);
  return [unsigned(bytes.length), bytes];
}

function vector(items: readonly Code[]): Code {
  return [unsigned(items.length), items];
}

function text(ascii: string): Code {
  return vector(Array.from(ascii, (char) => [char.charCodeAt(0)]));
}

function flat(code: Code): number[] {
  const bytes: number[] = [];
  for (const item of code) {
    if (typeof item === "number") bytes.push(item);
    else bytes.push(...flat(item));
  }
  return bytes;
}
