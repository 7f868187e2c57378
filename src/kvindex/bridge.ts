import { BRIDGE_WASM } from "./gen/core-wasm.ts";

const PAGE_BYTES = 65_536;
const MAX_PAGES = 65_536;
let compiled: WebAssembly.Module | undefined;

/**
 * A way for lists into the core's memory. What JavaScript copies to shared memory goes word by word, for another thread might
 * look; WebAssembly does not care. So a list is put into a small memory of its own, and copied from there (wasm/bridge.wat).
 */
export class Bridge {
  readonly #memory = new WebAssembly.Memory({ initial: 1, maximum: MAX_PAGES });
  readonly #copy: (to: number, bytes: number) => void;
  #bytes = new Uint8Array();
  #words = new Uint32Array();
  #longs = new BigUint64Array();

  constructor(to: WebAssembly.Memory) {
    compiled ??= new WebAssembly.Module(Uint8Array.from(atob(BRIDGE_WASM), (char) => char.charCodeAt(0)));
    const instance = new WebAssembly.Instance(compiled, { env: { from: this.#memory, to } });
    this.#copy = instance.exports["copy"] as (to: number, bytes: number) => void;
    this.#see();
  }

  #see(): void {
    const { buffer } = this.#memory;
    this.#bytes = new Uint8Array(buffer);
    this.#words = new Uint32Array(buffer);
    this.#longs = new BigUint64Array(buffer);
  }

  /** Let there be room for so many bytes in the views. What they have had may be lost. */
  room(bytes: number): void {
    const missing = bytes - this.#bytes.length;
    if (missing <= 0) return;
    // At least as much again, for each growth makes new buffers.
    this.#memory.grow(Math.ceil(Math.max(missing, this.#bytes.length) / PAGE_BYTES));
    this.#see();
  }

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get words(): Uint32Array {
    return this.#words;
  }

  get longs(): BigUint64Array {
    return this.#longs;
  }

  /** Copy the first `bytes` bytes to an address in the core's memory, and up to 63 more. */
  send(to: number, bytes: number): void {
    this.#copy(to, bytes);
  }
}
