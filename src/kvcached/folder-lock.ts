import { mkdir, readFile, rename, stat, unlink, utimes, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../core/clock.ts";
import { type Liveness, livenessOf, ownMark, type ProcessMark } from "../process/process-mark.ts";

/** Whoever holds the folder besides us. */
export interface Holder {
  /** Absent when the file says nothing of it. */
  readonly mark?: ProcessMark;
  readonly liveness: Liveness;
}

interface LockContent extends ProcessMark {
  /** The run: two services may be in one process. */
  readonly instance: string;
}

/** A lock whose holder cannot be looked at (another host, another container) is touched this often, and void when it was not for so long. */
const TOUCH_MS = 10_000;
export const STALE_MS = 45_000;

/**
 * Makes a folder one process's: a file that says which process holds it. The process decides, not the file: one that is gone
 * (killed, or of the boot before) holds nothing.
 */
export class FolderLock {
  readonly path: string;
  readonly #clock: Clock;
  readonly #instance: string;
  #held = false;
  #released = false;
  #cancel = (): void => {};

  constructor(path: string, options: { readonly clock: Clock; readonly instance: string }) {
    this.path = path;
    this.#clock = options.clock;
    this.#instance = options.instance;
  }

  /**
   * Take it, or see that it is still ours.
   * @returns undefined when it is ours now, else who holds it
   * @throws NodeJS.ErrnoException when the folder cannot be written
   */
  async take(): Promise<Holder | undefined> {
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    // A second turn for a stale one; whoever is quicker then is the holder.
    for (let turn = 0; ; turn++) {
      if (await this.#make()) return undefined;
      const holder = await this.#holder();
      if (holder === "ours") return this.#hold();
      if (holder === "none" && turn < 3) continue;
      if (holder === "none" || holder.liveness !== "gone" || turn >= 3) {
        this.#held = false;
        return holder === "none" ? { liveness: "unknown" } : holder;
      }
      await this.#removeStale();
    }
  }

  /** Let others have it. */
  async release(): Promise<void> {
    this.#released = true;
    this.#cancel();
    if (this.#held && (await this.#read())?.instance === this.#instance) await unlink(this.path).catch(() => {});
    this.#held = false;
  }

  async #make(): Promise<boolean> {
    const content: LockContent = { ...ownMark(), instance: this.#instance };
    try {
      await writeFile(this.path, `${JSON.stringify(content)}\n`, { flag: "wx", mode: 0o600 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
    this.#hold();
    return true;
  }

  #hold(): undefined {
    this.#held = true;
    if (this.#released) return;
    this.#cancel();
    this.#cancel = this.#clock.after(TOUCH_MS, () => void this.#touch());
  }

  async #touch(): Promise<void> {
    const now = this.#clock.wall() / 1000;
    if ((await this.#read())?.instance === this.#instance) await utimes(this.path, now, now).catch(() => {});
    if (this.#held) this.#hold();
  }

  async #holder(): Promise<Holder | "ours" | "none"> {
    const content = await this.#read();
    if (content?.instance === this.#instance) return "ours";
    const known = content === undefined ? "unknown" : livenessOf(content);
    const mark = content === undefined ? {} : { mark: content };
    if (known !== "unknown") return { ...mark, liveness: known };
    const touched = await stat(this.path).catch(() => undefined);
    if (touched === undefined) return "none";
    return { ...mark, liveness: this.#clock.wall() - touched.mtimeMs > STALE_MS ? "gone" : "unknown" };
  }

  async #read(): Promise<LockContent | undefined> {
    try {
      const { pid, startTime, place, instance } = JSON.parse(await readFile(this.path, "utf8")) as LockContent;
      const isWhole =
        Number.isInteger(pid) && pid > 0 && [startTime, place, instance].every((t) => typeof t === "string");
      return isWhole ? { pid, startTime, place, instance } : undefined;
    } catch {
      // None, or half written.
      return undefined;
    }
  }

  /** By a name of our own first: of two that find it stale, one moves it. */
  async #removeStale(): Promise<void> {
    const aside = `${this.path}.${this.#instance}`;
    try {
      await rename(this.path, aside);
      await unlink(aside);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}
