import type { CacheUse } from "../model/engine-model.ts";
import { encodeText } from "../tokens.ts";
import type { AnswerShapes, Generation } from "./answer-shapes.ts";
import type { EngineLoop } from "./engine-loop.ts";
import type { Exchange } from "./exchange.ts";

/** A generation under way; ended from outside when the engine stops. */
export interface Active {
  /** End it with an error, in the stream or as the answer. */
  fail(status: number, body: object): void;
}

export interface RunOptions {
  /** Fault: cut the stream after so many chunks. */
  readonly cutAfter?: number;
  onStart(active: Active): void;
  onEnd(active: Active): void;
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
  const writer = generation.stream ? streamWriter(generation, shapes, exchange, options.cutAfter) : undefined;
  let over = false;
  let key: string | undefined;
  const finish = (): void => {
    if (over) return;
    over = true;
    options.onEnd(active);
  };
  const active: Active = {
    fail(status, body) {
      finish();
      if (key !== undefined) loop.abort(key);
      if (writer === undefined) exchange.sendJson(status, body);
      else writer.fail(body);
    },
  };
  options.onStart(active);
  exchange.onGone(() => {
    if (key !== undefined) loop.abort(key);
    finish();
  });
  const { prompt, finish: reason, lora, salt } = generation;
  const request = { prompt, output: encodeText(generation.text), finish: reason, lora, salt };
  key = loop.submit(request, {
    token: (_token, index) => writer?.token(index),
    finished(_reason, use) {
      finish();
      if (writer === undefined) exchange.sendJson(200, shapes.whole(generation, use));
      else writer.finished(use);
    },
  });
}

interface StreamWriter {
  token(index: number): void;
  finished(use: CacheUse): void;
  fail(body: object): void;
}

function streamWriter(
  g: Generation,
  shapes: AnswerShapes,
  exchange: Exchange,
  cutAfter: number | undefined,
): StreamWriter {
  let chunks = 0;
  let open = true;
  const write = (body: object | undefined): void => {
    if (!open || body === undefined) return;
    if (cutAfter !== undefined && chunks >= cutAfter) {
      open = false;
      exchange.cut();
      return;
    }
    chunks++;
    exchange.event(JSON.stringify(body));
  };
  const close = (): void => {
    if (!open) return;
    open = false;
    exchange.event("[DONE]");
    exchange.end();
  };
  exchange.openStream();
  return {
    token(index) {
      // Engines send the role with the first token, not before.
      if (index === 0) write(shapes.open(g));
      write(shapes.delta(g, g.text[index]!, index === g.text.length - 1));
    },
    finished(use) {
      write(shapes.close(g));
      if (g.includeUsage) write(shapes.usage(g, use));
      close();
    },
    fail(body) {
      write(body);
      close();
    },
  };
}
