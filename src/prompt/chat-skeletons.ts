import type { ChatRequest } from "../core/chat-request.ts";
import { type ChatShape, shapeOf } from "./chat-shape.ts";
import {
  type ChatRenderer,
  type ChatRendererOptions,
  createChatRenderer,
  type RenderedPrompt,
} from "./chat-template.ts";
import { fill, fits, probe, type Skeleton } from "./skeleton.ts";
import { strftime } from "./strftime.ts";
import { watchTexts } from "./watched-texts.ts";

/** What is known of a shape: how often it came, then its skeleton; `none` once it was found to have none. */
type Known = "seen" | "none" | Proved;

interface Proved {
  readonly skeleton: Skeleton;
  /** What the template said of the time, by format. */
  readonly dates: ReadonlyMap<string, string>;
  /** Real chats that came out equal both ways. */
  proofs: number;
  /** Renders since the last comparison. */
  unchecked: number;
}

/** Shapes remembered, least recently used first. Chats of one application share a few dozen. */
const MAX_SHAPES = 1024;
/** So many real chats of a shape are rendered both ways before its skeleton is trusted … */
const PROOFS = 2;
/** … and one in so many ever after: a template that looks into contents is found out, and the skeleton dropped. */
const RECHECK = 1024;

const encoder = new TextEncoder();

/** A renderer that mostly does without the template. */
export interface FastChatRenderer extends ChatRenderer {
  /** The prompt, if it is known without running the template. */
  quick(request: ChatRequest): RenderedPrompt | undefined;
}

/**
 * A renderer that gives what `createChatRenderer()` gives, mostly without running the template.
 *
 * A template's own text depends on a chat's shape alone (roles, members, tools): it is taken once for each shape that comes again,
 * by rendering marks in the place of texts, and then joined with the texts. Whatever may make a difference is left to the
 * interpreter: texts with something that the template names (`</think>`), texts with white space at an end that is trimmed, other
 * members. 1 µs instead of 10 to 4,000.
 */
export function createFastChatRenderer(options: ChatRendererOptions): FastChatRenderer {
  const { normalize, template, now, ...rest } = options;
  const exact = createChatRenderer(options);
  // Outside of the quoted words.
  if (/raise_exception\([^'")]*content/.test(template)) return { render: exact.render, quick: () => undefined };
  let dates = new Map<string, string>();
  // Skeletons are of the text before it is normalised: normalising does not go piece by piece.
  const plain = createChatRenderer({
    ...rest,
    template,
    ...(now === undefined ? {} : { now, onDate: (format, text) => void dates.set(format, text) }),
  });
  const watched = watchTexts(template, options.dialect?.watched ?? []);
  const shapes = new Map<string, Known>();
  const bytesOf = (skeleton: Skeleton, texts: readonly string[]): Uint8Array => {
    const text = fill(skeleton, texts);
    return encoder.encode(normalize?.(text) ?? text);
  };
  /** The skeleton that may be used for this chat. */
  const usable = (shape: ChatShape): Proved | undefined => {
    const known = shapes.get(shape.key);
    if (typeof known !== "object" || !sameDates(known.dates, now)) return undefined;
    return fits(known.skeleton, shape.texts, watched) ? known : undefined;
  };
  const learn = (request: ChatRequest, shape: ChatShape): void => {
    const known = shapes.get(shape.key);
    shapes.delete(shape.key);
    if (known === undefined) shapes.set(shape.key, "seen");
    else if (known === "seen" || (known !== "none" && !sameDates(known.dates, now))) {
      dates = new Map();
      const skeleton = probe(plain, request, options.dialect?.asciiBlanks === true);
      shapes.set(shape.key, skeleton === undefined ? "none" : { skeleton, dates, proofs: 0, unchecked: 0 });
    } else shapes.set(shape.key, known);
    const [oldest] = shapes.keys();
    if (shapes.size > MAX_SHAPES && oldest !== undefined) shapes.delete(oldest);
  };
  const isDue = (proved: Proved): boolean => proved.proofs < PROOFS || proved.unchecked + 1 >= RECHECK;
  return {
    quick(request) {
      const shape = shapeOf(request);
      const proved = shape === undefined ? undefined : usable(shape);
      if (shape === undefined || proved === undefined || isDue(proved)) return undefined;
      proved.unchecked++;
      return { bytes: bytesOf(proved.skeleton, shape.texts) };
    },
    render(request) {
      const shape = shapeOf(request);
      if (shape === undefined) return exact.render(request);
      let proved = usable(shape);
      if (proved === undefined) {
        learn(request, shape);
        proved = usable(shape);
        if (proved === undefined) return exact.render(request);
      }
      if (!isDue(proved)) {
        proved.unchecked++;
        return { bytes: bytesOf(proved.skeleton, shape.texts) };
      }
      const truth = exact.render(request);
      if (isEqual(truth, bytesOf(proved.skeleton, shape.texts))) {
        proved.proofs++;
        proved.unchecked = 0;
      } else shapes.set(shape.key, "none");
      return truth;
    },
  };
}

function isEqual(truth: RenderedPrompt, bytes: Uint8Array): boolean {
  return "bytes" in truth && truth.bytes.length === bytes.length && truth.bytes.every((b, i) => b === bytes[i]);
}

function sameDates(dates: ReadonlyMap<string, string>, now: (() => Date) | undefined): boolean {
  if (dates.size === 0 || now === undefined) return true;
  const date = now();
  for (const [format, text] of dates) if (strftime(date, format) !== text) return false;
  return true;
}
