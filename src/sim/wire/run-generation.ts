import type { CacheUse } from "../model/engine-model.ts";
import type { HandOff } from "../model/request.ts";
import { encodeText } from "../tokens.ts";
import type { AnswerShapes, Choice, Frame, Generation, Told } from "./answer-shapes.ts";
import type { EngineLoop } from "./engine-loop.ts";
import type { Exchange } from "./exchange.ts";

/** A generation under way; ended from outside when the engine stops. */
export interface Active {
  /** End it with an error, in the stream or as the answer. */
  fail(status: number, body: object): void;
  /** Break it off without an end, if it is a stream. */
  cut(): void;
}

export interface RunOptions {
  /** Fault: cut the stream after so many chunks. */
  readonly cutAfter?: number;
  /** Prefill → decode, on either side. */
  readonly handOff?: HandOff;
  /** Reported instead of what this engine found (a vLLM decode tells the prefill's figure). */
  readonly cachedTokens?: number;
  /** The client's leaving does not end it (llama-server's whole answers). */
  readonly outlivesClient?: boolean;
  /** Monotonic and wall time, in milliseconds. */
  now(): number;
  wall(): number;
  /** What an answer says of the hand-over, once it is computed. */
  transferOf?(keys: readonly string[], use: CacheUse): object | undefined;
  /** Decode side: all is read from the prefill engine. */
  transferred?(): void;
  onStart(active: Active): void;
  onEnd(active: Active): void;
  onDone?(told: Told): void;
}

/**
 * Compute a generation and answer it, streamed or whole. A client that leaves aborts it.
 * @throws RangeError when the model refuses it
 */
export function runGeneration(
  generation: Generation,
  shapes: AnswerShapes,
  exchange: Exchange,
  loop: EngineLoop,
  options: RunOptions,
): void {
  const progress = new Progress(generation, options);
  const writer = generation.stream ? new StreamWriter(exchange, options.cutAfter) : undefined;
  const keys: string[] = [];
  let over = false;
  const finish = (): void => {
    if (over) return;
    over = true;
    options.onEnd(active);
  };
  const stop = (): void => {
    for (const key of keys) loop.abort(key);
    finish();
  };
  const active: Active = {
    fail(status, body) {
      stop();
      if (writer === undefined) exchange.sendJson(status, body);
      else writer.fail(body);
    },
    cut() {
      if (writer === undefined) return;
      stop();
      exchange.cut();
    },
  };
  options.onStart(active);
  if (options.outlivesClient !== true || generation.stream) exchange.onGone(stop);
  const { lora, salt } = generation;
  for (const choice of generation.choices) {
    const { prompt } = choice;
    const request = { prompt, output: encodeText(choice.text), finish: choice.finish, lora, salt, ...options.handOff };
    const key = loop.submit(request, {
      token(_token, index, use) {
        const told = progress.token(choice, use);
        if (index === 0) writer?.write(shapes.first(generation, choice, told));
        writer?.write(shapes.token(generation, choice, index, told));
      },
      transferred: () => options.transferred?.(),
      finished(_reason, use) {
        const told = progress.finished(use, keys);
        writer?.write(shapes.last(generation, choice, told));
        if (progress.left > 0) return;
        finish();
        options.onDone?.(told);
        if (writer === undefined) exchange.sendJson(200, shapes.whole(generation, told));
        else writer.end(shapes.end(generation, told));
      },
    });
    keys.push(key);
  }
}

/** How far the answers of a generation are. */
class Progress {
  left: number;
  readonly #options: RunOptions;
  readonly #generated: number[];
  readonly #since: number;
  #firstAt: number | undefined;
  #use: CacheUse | undefined;

  constructor(generation: Generation, options: RunOptions) {
    this.#options = options;
    this.left = generation.choices.length;
    this.#generated = generation.choices.map(() => 0);
    this.#since = options.now();
  }

  token(choice: Choice, use: CacheUse): Told {
    this.#generated[choice.index]!++;
    this.#firstAt ??= this.#options.now();
    return this.#told(use);
  }

  finished(use: CacheUse, keys: readonly string[]): Told {
    this.left--;
    const transfer = this.left > 0 ? undefined : this.#options.transferOf?.(keys, use);
    return { ...this.#told(use), ...(transfer === undefined ? {} : { transfer }) };
  }

  #told(use: CacheUse): Told {
    const { cachedTokens } = this.#options;
    this.#use ??= cachedTokens === undefined ? use : { ...use, cachedTokens };
    const now = this.#options.now();
    const firstAt = this.#firstAt ?? now;
    return {
      use: this.#use,
      promptMs: firstAt - this.#since,
      predictedMs: now - firstAt,
      generated: [...this.#generated],
      now: this.#options.wall(),
    };
  }
}

class StreamWriter {
  readonly #exchange: Exchange;
  readonly #cutAfter: number | undefined;
  #events = 0;
  #open = true;

  constructor(exchange: Exchange, cutAfter: number | undefined) {
    this.#exchange = exchange;
    this.#cutAfter = cutAfter;
    exchange.openStream();
  }

  write(frames: readonly Frame[]): void {
    for (const { event, data } of frames) {
      if (!this.#open) return;
      if (this.#cutAfter !== undefined && this.#events >= this.#cutAfter) {
        this.#open = false;
        this.#exchange.cut();
        return;
      }
      this.#events++;
      this.#exchange.event(typeof data === "string" ? data : JSON.stringify(data), event);
    }
  }

  end(frames: readonly Frame[]): void {
    this.write(frames);
    if (!this.#open) return;
    this.#open = false;
    this.#exchange.end();
  }

  /** As vLLM does: the error as an event, and `[DONE]`. */
  fail(body: object): void {
    this.end([{ data: body }, { data: "[DONE]" }]);
  }
}
