/** The figures of a distribution, in the unit of its values. Zeros when there were none. */
export interface Distribution {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** All values of one measure: exact percentiles for 8 bytes each. */
export class Sample {
  #values = new Float64Array(1024);
  #length = 0;
  #sorted = true;

  get length(): number {
    return this.#length;
  }

  add(value: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Float64Array(this.#length * 2);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = value;
    this.#sorted = false;
  }

  mean(): number {
    let sum = 0;
    for (let i = 0; i < this.#length; i++) sum += this.#values[i]!;
    return this.#length === 0 ? 0 : sum / this.#length;
  }

  /** The value below which this share of all lies, 0 to 1 (nearest rank). */
  at(share: number): number {
    if (this.#length === 0) return 0;
    if (!this.#sorted) {
      this.#values.subarray(0, this.#length).sort();
      this.#sorted = true;
    }
    return this.#values[Math.min(this.#length - 1, Math.max(0, Math.ceil(share * this.#length) - 1))]!;
  }

  distribution(): Distribution {
    // The sum before sorting and after it may differ in the last bits.
    this.at(0);
    return { mean: this.mean(), p50: this.at(0.5), p90: this.at(0.9), p99: this.at(0.99) };
  }
}
