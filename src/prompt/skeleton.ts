import type { ChatRequest } from "../core/chat-request.ts";
import { type TextKind, withTexts } from "./chat-shape.ts";
import type { ChatRenderer, RenderedPrompt } from "./chat-template.ts";
import { pythonJson } from "./python-json.ts";
import { isAsciiBlank, isPythonBlank } from "./python-strings.ts";
import type { TextWatch } from "./watched-texts.ts";

/** What happens to white space at an end of a text. `some` of it goes: only texts without may be put in. */
type Edge = "kept" | "trimmed" | "some";

/** What a template puts around the texts of chats of one shape. */
export interface Skeleton {
  readonly first: string;
  /** In the order of the prompt, which need not be the request's; a text may come twice, or not at all. */
  readonly slots: readonly Slot[];
  /** White space that is trimmed. */
  readonly isBlank: (letter: string) => boolean;
}

interface Slot {
  /** Which text of the request. */
  readonly text: number;
  /** As it is; as the inside of a JSON text (`tojson`); or parsed, and written as Python writes JSON. */
  readonly how: "as is" | "escaped" | "as JSON";
  readonly start: Edge;
  readonly end: Edge;
  /** The template's own text behind it. */
  readonly after: string;
}

/** May these texts be put into the skeleton? */
export function fits({ slots, isBlank }: Skeleton, texts: readonly string[], watched: TextWatch): boolean {
  for (const text of texts) if (watched(text)) return false;
  for (const { text, start, end } of slots) {
    const value = texts[text]!;
    if (start === "some" && isAnyBlank(value[0]!)) return false;
    if (end === "some" && isAnyBlank(value.at(-1)!)) return false;
    // Nothing would be left: templates ask whether there is a text.
    if ((start === "trimmed" || end === "trimmed") && trimmed(value, "trimmed", "trimmed", isBlank) === "")
      return false;
  }
  return true;
}

/** White space for Python or for JavaScript. */
const isAnyBlank = (letter: string): boolean => /\s/.test(letter) || isPythonBlank(letter);

export function fill({ first, slots, isBlank }: Skeleton, texts: readonly string[]): string {
  let out = first;
  for (const { text, how, start, end, after } of slots) {
    const given = texts[text]!;
    const value = start === "trimmed" || end === "trimmed" ? trimmed(given, start, end, isBlank) : given;
    if (how === "as is") out += value + after;
    else if (how === "escaped") out += JSON.stringify(value).slice(1, -1) + after;
    else out += pythonJson(JSON.parse(value)) + after;
  }
  return out;
}

function trimmed(text: string, start: Edge, end: Edge, isBlank: (letter: string) => boolean): string {
  let [from, to] = [0, text.length];
  if (start === "trimmed") while (from < to && isBlank(text[from]!)) from++;
  if (end === "trimmed") while (to > from && isBlank(text[to - 1]!)) to--;
  return text.slice(from, to);
}

const OPEN = "\u{e000}";
const CLOSE = "\u{e001}";
/**
 * What stands around marks: white space that shows what is trimmed. Next to the mark is a letter that templates do not write
 * themselves; behind it a line end, which `strip('\n')` takes, and nothing else of it.
 */
const EDGE: Edges = { left: "\n \t\u2003", right: "\u2003\t \n" };
const ASCII_EDGE: Edges = { left: "\n \t\v", right: "\v\t \n" };
const NO_EDGE: Edges = { left: "", right: "" };

interface Edges {
  readonly left: string;
  readonly right: string;
}

/**
 * A mark that no template writes itself; each text has its own. It holds what filters change: letters of both cases,
 * markup, quotes, a backslash, runs of spaces, line ends.
 */
const core = (i: number): string => `${OPEN}${i}aZ é<&>"'\\  .,;:#{}[]()\n\t\n${CLOSE}`;
/** Nine letters. */
const idMark = (i: number): string => OPEN + String(i).padStart(7, "0") + CLOSE;
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Take the skeleton of a shape from the template: undefined where texts are not put in whole. */
export function probe(plain: ChatRenderer, request: ChatRequest, asciiBlanks: boolean): Skeleton | undefined {
  const isBlank = asciiBlanks ? isAsciiBlank : isPythonBlank;
  const edged = probeWith(plain, request, asciiBlanks ? ASCII_EDGE : EDGE) ?? probeWith(plain, request, NO_EDGE);
  return edged === undefined ? undefined : { ...edged, isBlank };
}

type Cut = Omit<Skeleton, "isBlank">;

/** Without edges for templates that refuse texts with white space; then all must be without. */
function probeWith(plain: ChatRenderer, request: ChatRequest, edge: Edges): Cut | undefined {
  const kinds: TextKind[] = [];
  const marked = withTexts(request, (what) => {
    const i = kinds.push(what) - 1;
    if (what === "arguments") return JSON.stringify({ [core(i)]: "" });
    return what === "id" ? idMark(i) : edge.left + core(i) + edge.right;
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

function cut(rendered: string, kinds: readonly TextKind[], edge: Edges): Cut | undefined {
  const found: { readonly slot: Omit<Slot, "after">; readonly start: number; readonly end: number }[] = [];
  for (let at = rendered.indexOf(OPEN); at >= 0; at = rendered.indexOf(OPEN, found.at(-1)?.end ?? 0)) {
    const i = Number.parseInt(rendered.slice(at + 1, at + 8), 10);
    const kind = kinds[i];
    const one = kind === undefined ? undefined : markAt(rendered, at, i, kind, edge);
    if (one === undefined || one.start < (found.at(-1)?.end ?? 0)) return undefined;
    found.push(one);
  }
  if (rendered.slice(found.at(-1)?.end ?? 0).includes(CLOSE)) return undefined;
  const slots = found.map(({ slot, end }, n) => ({ ...slot, after: narrow(rendered.slice(end, found[n + 1]?.start)) }));
  return { first: narrow(rendered.slice(0, found[0]?.start)), slots };
}

function markAt(rendered: string, at: number, i: number, kind: TextKind, edge: Edges): Found | undefined {
  if (kind === "arguments") return argumentsAt(rendered, at, i);
  if (kind === "text") return textAt(rendered, at, i, edge);
  const mark = idMark(i);
  if (!rendered.startsWith(mark, at)) return undefined;
  return { slot: { text: i, how: "escaped", start: "kept", end: "kept" }, start: at, end: at + mark.length };
}

function textAt(rendered: string, at: number, i: number, edge: Edges): Found | undefined {
  for (const how of ["as is", "escaped"] as const) {
    const spell = how === "as is" ? (text: string) => text : escaped;
    if (!rendered.startsWith(spell(core(i)), at)) continue;
    const after = at + spell(core(i)).length;
    const left = common(spell(edge.left), rendered.slice(0, at), true);
    const right = common(spell(edge.right), rendered.slice(after, after + spell(edge.right).length), false);
    const edgeOf = (length: number, whole: string): Edge => {
      if (whole === "") return "some";
      return length === 0 ? "trimmed" : length < spell(whole).length ? "some" : "kept";
    };
    return {
      slot: { text: i, how, start: edgeOf(left, edge.left), end: edgeOf(right, edge.right) },
      start: at - left,
      end: after + right,
    };
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
      return { slot: { text: i, how, start: "kept", end: "kept" }, start, end: start + spelled.length };
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
