import { CgnError } from "../../core/errors.ts";

interface LogRow {
  readonly at: number;
  readonly promptTokens: number;
  readonly promptBytes: number;
  readonly outputTokens: number;
  /** Under the run's name: other runs have other salts. */
  readonly blocks: readonly string[];
}

/** A trace made of a router's request log. */
export interface ExportedTrace {
  /** JSON lines: a header, then one a request in the order of arrival. */
  readonly lines: readonly string[];
  readonly requests: number;
  /** Requests that were not answered, or of another model, or whose lengths the engine did not tell. */
  readonly left: { readonly failed: number; readonly otherModel: number; readonly noLengths: number };
  readonly blockTokens: number;
}

/** Reads request logs line by line, then makes the trace. Of the log's hashes only the equality is kept: blocks get new numbers. */
export class TraceExport {
  readonly #model: string | undefined;
  readonly #rows: LogRow[] = [];
  readonly #left = { failed: 0, otherModel: 0, noLengths: 0 };
  /** The header of a file that was rotated may be missing. */
  #chunkBytes = 2048;

  /** @param model only its requests; undefined: all */
  constructor(model: string | undefined) {
    this.#model = model;
  }

  /** @throws CgnError TRACE_INVALID for a line that is none of a request log */
  add(line: string, place: string): void {
    if (line.trim() === "") return;
    const row = parse(line, place);
    if (row["format"] === "cgn-request-log") {
      this.#chunkBytes = Number(row["chunk_bytes"]);
      return;
    }
    if (typeof row["run"] !== "string" || typeof row["at"] !== "number")
      throw invalid(place, "it is no line of a router's request log");
    const [promptTokens, outputTokens] = [Number(row["prompt_tokens"]), Number(row["output_tokens"])];
    if (this.#model !== undefined && row["model"] !== this.#model) this.#left.otherModel++;
    else if (row["outcome"] !== "ok") this.#left.failed++;
    else if (!(promptTokens >= 1 && outputTokens >= 1)) this.#left.noLengths++;
    else {
      const blocks = Array.isArray(row["blocks"])
        ? row["blocks"].map((hash) => `${String(row["run"])}:${String(hash)}`)
        : [];
      this.#rows.push({ at: row["at"], promptTokens, outputTokens, promptBytes: Number(row["prompt_bytes"]), blocks });
    }
  }

  finish(): ExportedTrace {
    // Lines are written when requests end.
    const rows = [...this.#rows].sort((a, b) => a.at - b.at);
    const blockTokens = this.#blockTokens(rows);
    const ids = new Map<string, number>();
    let next = 0;
    const first = rows[0]?.at ?? 0;
    const requests = rows.map((row) => {
      const count = Math.ceil(row.promptTokens / blockTokens);
      const hash_ids = Array.from({ length: count }, (_, i) => {
        const name = row.blocks[i];
        const known = name === undefined ? undefined : ids.get(name);
        if (known !== undefined) return known;
        if (name !== undefined) ids.set(name, next);
        return next++;
      });
      return JSON.stringify({
        timestamp: row.at - first,
        input_length: row.promptTokens,
        output_length: row.outputTokens,
        hash_ids,
      });
    });
    const header = JSON.stringify({ format: "cgn-trace", version: 1, block_tokens: blockTokens });
    return { lines: [header, ...requests], requests: requests.length, left: this.#left, blockTokens };
  }

  /** Tokens in a chunk of bytes, by all prompts together. */
  #blockTokens(rows: readonly LogRow[]): number {
    let bytes = 0;
    let tokens = 0;
    for (const row of rows) {
      if (row.blocks.length === 0) continue;
      bytes += row.promptBytes;
      tokens += row.promptTokens;
    }
    return bytes === 0 ? 512 : Math.max(1, Math.round((this.#chunkBytes * tokens) / bytes));
  }
}

function parse(line: string, place: string): Readonly<Record<string, unknown>> {
  try {
    const row: unknown = JSON.parse(line);
    if (typeof row === "object" && row !== null) return row as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw invalid(place, "it is no JSON object");
}

function invalid(place: string, is: string): CgnError {
  return new CgnError(
    "TRACE_INVALID",
    `Cannot read the request log at ${place}: ${is}. It is the file of router.request_log`,
    { place },
  );
}
