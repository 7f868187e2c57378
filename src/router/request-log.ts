import { createHash, randomBytes } from "node:crypto";
import { closeSync, openSync, write } from "node:fs";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { DecisionRecord } from "./decisions.ts";

/** Bytes of a prompt that one hash stands for: about 512 tokens of English. */
const CHUNK_BYTES = 2048;
const FLUSH_MS = 1000;
/** Lines beyond this, not yet written, are dropped: a disk that hangs must not fill the memory. */
const MOST_WAITING_BYTES = 16 * 1024 * 1024;

/**
 * `[router].request_log`: one JSON line a request, without content. A prompt is there as hashes of its bytes in chunks of 2,048,
 * each together with all before it, under a salt that lives and dies with this process: equal hashes of one `run` mean equal
 * starts, and nobody can try out guesses against the file.
 */
export class RequestLog {
  readonly #fd: number;
  readonly #log: Log;
  readonly #salt = randomBytes(32);
  /** In every line, so that each part of a file that was rotated can be read alone. */
  readonly #run = randomBytes(8).toString("hex");
  readonly #cancel: () => void;
  #lines: string[] = [];
  #waitingBytes = 0;
  #writing = false;
  #closed = false;

  /** @throws CgnError STORAGE_UNUSABLE when the file cannot be opened */
  constructor(path: string, clock: Clock, log: Log) {
    this.#log = log;
    try {
      this.#fd = openSync(path, "a", 0o600);
    } catch (e) {
      const said = e instanceof Error ? e.message : String(e);
      throw new CgnError("STORAGE_UNUSABLE", `Cannot write the request log ${path} (router.request_log): ${said}`, {
        path,
      });
    }
    this.#add({ format: "cgn-request-log", version: 1, run: this.#run, chunk_bytes: CHUNK_BYTES, at: clock.wall() });
    let stop = (): void => {};
    const tick = (): void => {
      this.#flush();
      if (!this.#closed) stop = clock.after(FLUSH_MS, tick);
    };
    stop = clock.after(FLUSH_MS, tick);
    this.#cancel = () => stop();
  }

  /** Write down what came of a request. `prompt`: its rendered bytes, where there are any. */
  note(record: DecisionRecord, root: string, prompt: Uint8Array | undefined): void {
    const { outcome } = record;
    if (outcome === undefined || this.#waitingBytes > MOST_WAITING_BYTES) return;
    this.#add({
      run: this.#run,
      at: record.at,
      model: record.model,
      subject: record.subject,
      trace_id: record.traceId,
      prompt_tokens: outcome.promptTokens ?? record.promptTokens,
      prompt_bytes: record.promptBytes,
      output_tokens: outcome.completionTokens,
      cached_tokens: outcome.cachedTokens,
      ttft_ms: outcome.ttftMs,
      total_ms: outcome.totalMs,
      outcome: outcome.result,
      worker: record.attempts.at(-1)?.worker,
      blocks: prompt === undefined ? undefined : this.#hashes(root, prompt),
    });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancel();
    this.#flush();
  }

  #add(line: object): void {
    const text = `${JSON.stringify(line)}\n`;
    this.#waitingBytes += text.length;
    this.#lines.push(text);
  }

  /** Whole and part-filled chunks, 64 bits each in hex. */
  #hashes(root: string, prompt: Uint8Array): string[] {
    const hashes: string[] = [];
    let above = createHash("sha256").update(this.#salt).update(root).digest();
    for (let start = 0; start < prompt.length; start += CHUNK_BYTES) {
      above = createHash("sha256")
        .update(above)
        .update(prompt.subarray(start, start + CHUNK_BYTES))
        .digest();
      hashes.push(above.toString("hex", 0, 8));
    }
    return hashes;
  }

  #flush(): void {
    if (this.#writing) return;
    if (this.#lines.length === 0) {
      if (this.#closed) closeSync(this.#fd);
      return;
    }
    const text = this.#lines.join("");
    this.#lines = [];
    this.#writing = true;
    this.#writeAll(Buffer.from(text), () => {
      this.#writing = false;
      this.#waitingBytes = this.#lines.reduce((sum, line) => sum + line.length, 0);
      if (this.#closed) this.#flush();
    });
  }

  /** A write to a file may take less than it was given. */
  #writeAll(bytes: Buffer, done: () => void): void {
    write(this.#fd, bytes, 0, bytes.length, null, (error, written) => {
      if (error !== null) {
        this.#log
          .once("request-log")
          .warn("The request log cannot be written; requests are missing in it", { said: error.message });
        done();
      } else if (written < bytes.length) this.#writeAll(bytes.subarray(written), done);
      else done();
    });
  }
}
