import type { ChatRequest } from "../core/chat-request.ts";
import { withTexts } from "./chat-shape.ts";
import type { ChatRenderer, RenderedPrompt } from "./chat-template.ts";
import { pythonJson } from "./python-json.ts";
import { isPythonBlank } from "./python-strings.ts";

/** What a template puts around the texts of chats of one shape. */
export interface Skeleton {
  readonly first: string;
  /** In the order of the prompt, which need not be the request's; a text may come twice, or not at all. */
  readonly slots: readonly Slot[];
}

interface Slot {
  /** Which text of the request. */
  readonly text: number;
  /** As it is; as the inside of a JSON text (`tojson`); or parsed, and written as Python writes JSON. */
  readonly how: "as is" | "escaped" | "as JSON";
  /** The template takes white space away there: only texts without may be put in. */
  readonly trimsStart: boolean;
  readonly trimsEnd: boolean;
  /** The template's own text behind it. */
  readonly after: string;
}

/** May these texts be put into the skeleton? */
export function fits({ slots }: Skeleton, texts: readonly string[], watched: RegExp): boolean {
  for (const text of texts) if (watched.test(text)) return false;
  for (const { text, trimsStart, trimsEnd } of slots) {
    if (trimsStart && isBlank(texts[text]![0]!)) return false;
    if (trimsEnd && isBlank(texts[text]!.at(-1)!)) return false;
  }
  return true;
}

/** White space for Python or for JavaScript. */
const isBlank = (letter: string): boolean => /\s/.test(letter) || isPythonBlank(letter);

export function fill({ first, slots }: Skeleton, texts: readonly string[]): string {
  let out = first;
  for (const { text, how, after } of slots) {
    const value = texts[text]!;
    if (how === "as is") out += value + after;
    else if (how === "escaped") out += JSON.stringify(value).slice(1, -1) + after;
    else out += pythonJson(JSON.parse(value)) + after;
  }
  return out;
}

const OPEN = "\u{e000}";
const CLOSE = "\u{e001}";
/**
 * What stands around marks: white space that shows what is trimmed. `strip('\n')` leaves a part of it, which counts as
 * trimmed too.
 */
const EDGE = "\n \n";

/**
 * A mark that no template writes itself; each text has its own. It holds what filters change: letters of both cases,
 * markup, quotes, a backslash, runs of spaces, line ends.
 */
const core = (i: number): string => `${OPEN}${i}aZ é<&>"'\\  .,;:#{}[]()\n\t\n${CLOSE}`;
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Take the skeleton of a shape from the template: undefined where texts are not put in whole. */
export function probe(plain: ChatRenderer, request: ChatRequest): Skeleton | undefined {
  return probeWith(plain, request, EDGE) ?? probeWith(plain, request, "");
}

/** Without edges for templates that refuse texts with white space; then all must be without. */
function probeWith(plain: ChatRenderer, request: ChatRequest, edge: string): Skeleton | undefined {
  const kinds: ("text" | "arguments")[] = [];
  const marked = withTexts(request, (what) => {
    const i = kinds.push(what) - 1;
    return what === "text" ? edge + core(i) + edge : JSON.stringify({ [core(i)]: "" });
  });
  let rendered: RenderedPrompt;
  try {
    rendered = plain.render(marked);
  } catch {
    // The template refuses such chats; it must say so itself, each time.
    return undefined;
  }
  if (!("bytes" in rendered)) return undefined;
  return cut(new TextDecoder("utf-8", { ignoreBOM: true }).decode(rendered.bytes), kinds, edge);
}

function cut(rendered: string, kinds: readonly ("text" | "arguments")[], edge: string): Skeleton | undefined {
  const found: { readonly slot: Omit<Slot, "after">; readonly start: number; readonly end: number }[] = [];
  for (let at = rendered.indexOf(OPEN); at >= 0; at = rendered.indexOf(OPEN, found.at(-1)?.end ?? 0)) {
    const i = Number.parseInt(rendered.slice(at + 1, at + 8), 10);
    const kind = kinds[i];
    const one =
      kind === undefined ? undefined : kind === "text" ? textAt(rendered, at, i, edge) : argumentsAt(rendered, at, i);
    if (one === undefined || one.start < (found.at(-1)?.end ?? 0)) return undefined;
    found.push(one);
  }
  if (rendered.slice(found.at(-1)?.end ?? 0).includes(CLOSE)) return undefined;
  const slots = found.map(({ slot, end }, n) => ({ ...slot, after: narrow(rendered.slice(end, found[n + 1]?.start)) }));
  return { first: narrow(rendered.slice(0, found[0]?.start)), slots };
}

function textAt(rendered: string, at: number, i: number, edge: string): Found | undefined {
  for (const how of ["as is", "escaped"] as const) {
    const spell = how === "as is" ? (text: string) => text : escaped;
    if (!rendered.startsWith(spell(core(i)), at)) continue;
    const after = at + spell(core(i)).length;
    const left = edge === "" ? 0 : common(spell(edge), rendered.slice(0, at), true);
    const right = edge === "" ? 0 : common(spell(edge), rendered.slice(after, after + spell(edge).length), false);
    const [trimsStart, trimsEnd] = [
      left < spell(edge).length || edge === "",
      right < spell(edge).length || edge === "",
    ];
    return { slot: { text: i, how, trimsStart, trimsEnd }, start: at - left, end: after + right };
  }
  return undefined;
}

/** How much of an edge is left: a part of it that ends, or begins, at the mark. */
function common(edge: string, around: string, before: boolean): number {
  for (let length = edge.length; length > 0; length--) {
    if (before ? around.endsWith(edge.slice(-length)) : around.startsWith(edge.slice(0, length))) return length;
  }
  return 0;
}

/** Arguments are marked as an object of one member, which is found as Python writes it or as it was written. */
function argumentsAt(rendered: string, at: number, i: number): Found | undefined {
  const [key] = [JSON.stringify(core(i))];
  // Inside of the JSON text the mark is escaped; `at` is behind the brace and the quote.
  for (const [how, spelled] of [
    ["as JSON", `{${key}: ""}`],
    ["as is", `{${key}:""}`],
    ["escaped", escaped(`{${key}:""}`)],
  ] as const) {
    const start = at - spelled.indexOf(OPEN);
    if (start >= 0 && rendered.startsWith(spelled, start)) {
      return { slot: { text: i, how, trimsStart: false, trimsEnd: false }, start, end: start + spelled.length };
    }
  }
  return undefined;
}

type Found = { readonly slot: Omit<Slot, "after">; readonly start: number; readonly end: number };

/**
 * Cut out of a text with the marks' letters, pieces are 16 bits a letter; joined with contents they would make those so
 * too, and the whole four times slower to encode.
 */
const narrow = (piece: string): string => JSON.parse(JSON.stringify(piece)) as string;
