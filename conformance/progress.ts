const WIDTH = 28;

/** One line of progress on stderr: redrawn on a terminal, else a line at each start and end. */
export class Progress {
  readonly #tty = process.stderr.isTTY === true;
  readonly #started = Date.now();
  readonly #label: string;
  readonly #total: number;
  #done = 0;

  /** @param total - steps; 0 where nobody knows, then only time is shown */
  constructor(label: string, total: number) {
    this.#label = label;
    this.#total = total;
    if (!this.#tty) process.stderr.write(`${label} …\n`);
    this.#draw();
  }

  step(note = ""): void {
    this.#done++;
    this.#draw(note);
  }

  end(verdict: string): void {
    const seconds = ((Date.now() - this.#started) / 1000).toFixed(1);
    process.stderr.write(`${this.#tty ? "\r\x1b[K" : ""}${this.#label}: ${verdict} (${seconds} s)\n`);
  }

  #draw(note = ""): void {
    if (!this.#tty) return;
    const share = this.#total === 0 ? 0 : Math.min(1, this.#done / this.#total);
    const filled = Math.round(share * WIDTH);
    const bar = `${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}`;
    const text = `${this.#label.padEnd(24)} [${bar}] ${this.#done}/${this.#total} ${note}`;
    process.stderr.write(`\r\x1b[K${text.slice(0, Math.max(40, process.stderr.columns ?? 100))}`);
  }
}
