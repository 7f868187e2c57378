import { type ChatRenderer, type ChatRendererOptions, type ChatRequest, createChatRenderer } from "./chat-template.ts";

/** What a template puts around the contents of a chat with certain roles: one piece more than there are messages. */
interface Skeleton {
  readonly pieces: readonly string[];
  /** The template trims contents: only trimmed ones may be put in. */
  readonly trims: boolean;
  /** Real chats that came out equal both ways. */
  proofs: number;
  /** Renders since the last comparison. */
  unchecked: number;
}

/** Role sequences remembered, least recently used first. Chats of one application share a few dozen. */
const MAX_SKELETONS = 512;
const MAX_MESSAGES = 128;
/** So many real chats of a role sequence are rendered both ways before the skeleton is trusted … */
const PROOFS = 2;
/** … and one in so many ever after: a template that looks into contents is found out, and its skeleton dropped. */
const RECHECK = 1024;

/** Words of templates that are in any text, and never a test on contents. */
const COMMON = new Set(["role", "content", "system", "user", "assistant", "tool", "name", "text", "type", "function"]);

const encoder = new TextEncoder();

/**
 * A renderer that gives what `createChatRenderer()` gives, mostly without running the template.
 *
 * For chats of plain text the template's own text depends on the roles alone: it is taken once for each sequence of roles,
 * by rendering marks in the place of contents, and then joined with the contents. Whatever may make a difference is left
 * to the interpreter: tools and other fields, empty contents, contents with a text that the template names (`</think>`),
 * templates that ask for the date. 1 µs instead of 10 to 150.
 */
export function createFastChatRenderer(options: ChatRendererOptions): ChatRenderer {
  const { normalize, template, ...rest } = options;
  const exact = createChatRenderer(options);
  if (/strftime_now|raise_exception\(.*content/.test(template)) return exact;
  // Skeletons are of the text before it is normalised: normalising does not go piece by piece.
  const plain = createChatRenderer({ ...rest, template });
  const watched = literalsOf(template);
  const skeletons = new Map<string, Skeleton | undefined>();
  return {
    render(request) {
      const messages = plainMessages(request);
      const skeleton = messages === undefined ? undefined : skeletonFor(skeletons, plain, messages);
      if (messages === undefined || skeleton === undefined || !fits(skeleton, messages, watched)) {
        return exact.render(request);
      }
      const text = join(skeleton, messages);
      const bytes = encoder.encode(normalize?.(text) ?? text);
      if (skeleton.proofs >= PROOFS && ++skeleton.unchecked < RECHECK) return { bytes };
      return compare(skeletons, skeleton, messages, exact, request, bytes);
    },
  };
}

interface PlainMessage {
  readonly role: string;
  readonly content: string;
}

/** The messages of a request that has nothing but plain ones; undefined for all others. */
function plainMessages(request: ChatRequest): readonly PlainMessage[] | undefined {
  const { messages, tools, documents, chat_template, chat_template_kwargs: kwargs } = request;
  if (tools != null || documents != null || chat_template != null || kwargs != null) return undefined;
  if (request.add_generation_prompt != null || request.continue_final_message != null) return undefined;
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MAX_MESSAGES) return undefined;
  for (const message of messages) if (!isPlain(message)) return undefined;
  return messages as PlainMessage[];
}

function isPlain(message: unknown): message is PlainMessage {
  if (typeof message !== "object" || message === null) return false;
  let members = 0;
  for (const _ in message) members++;
  const { role, content } = message as Partial<PlainMessage>;
  return members === 2 && typeof role === "string" && typeof content === "string" && content !== "";
}

/** Finds the texts that a template names: one in a content may change what the template does. */
function literalsOf(template: string): RegExp {
  const found = new Set<string>();
  for (const [, single, double] of template.matchAll(/'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/g)) {
    const text = (single ?? double ?? "").replaceAll("\\n", "\n").replaceAll("\\t", "\t").trim();
    if (text.length > 1 && !COMMON.has(text)) found.add(text);
  }
  // One expression: ten times faster on long contents than a search for each text.
  const escaped = [...found].map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(escaped.length === 0 ? "(?!)" : escaped.join("|"));
}

function fits(skeleton: Skeleton, messages: readonly PlainMessage[], watched: RegExp): boolean {
  for (const { content } of messages) {
    if (skeleton.trims && content.trim() !== content) return false;
    if (watched.test(content)) return false;
  }
  return true;
}

function skeletonFor(
  skeletons: Map<string, Skeleton | undefined>,
  plain: ChatRenderer,
  messages: readonly PlainMessage[],
): Skeleton | undefined {
  const key = keyOf(messages);
  const known = skeletons.get(key);
  if (known !== undefined || skeletons.has(key)) return known;
  const made = probe(plain, messages);
  skeletons.set(key, made);
  const [oldest] = skeletons.keys();
  if (skeletons.size > MAX_SKELETONS && oldest !== undefined) skeletons.delete(oldest);
  return made;
}

function keyOf(messages: readonly PlainMessage[]): string {
  let key = "";
  for (const { role } of messages) key += `${role}\n`;
  return key;
}

/**
 * A mark that no template writes itself; each message has its own. It holds what filters change: letters of both cases,
 * markup, quotes, a backslash, runs of spaces, line ends.
 */
const mark = (i: number): string => `\u{e000}${i}aZ é<&>"'\\  .,;:#{}[]()\n\t\n\u{e001}`;

/** Take the pieces of a role sequence from the template: undefined where contents are not put in as they are, in order. */
function probe(plain: ChatRenderer, messages: readonly PlainMessage[]): Skeleton | undefined {
  const spaced = cut(plain, messages, (i) => ` \n${mark(i)} \n`);
  if (spaced !== undefined) return { pieces: spaced, trims: false, proofs: 0, unchecked: 0 };
  const bare = cut(plain, messages, mark);
  return bare === undefined ? undefined : { pieces: bare, trims: true, proofs: 0, unchecked: 0 };
}

function cut(
  plain: ChatRenderer,
  messages: readonly PlainMessage[],
  content: (i: number) => string,
): readonly string[] | undefined {
  let rendered: ReturnType<ChatRenderer["render"]>;
  try {
    rendered = plain.render({ messages: messages.map(({ role }, i) => ({ role, content: content(i) })) });
  } catch {
    // The template refuses these roles; it must say so itself, each time.
    return undefined;
  }
  if (!("bytes" in rendered)) return undefined;
  let rest = new TextDecoder().decode(rendered.bytes);
  const pieces: string[] = [];
  for (let i = 0; i < messages.length; i++) {
    const parts = rest.split(content(i));
    if (parts.length !== 2) return undefined;
    pieces.push(parts[0] ?? "");
    rest = parts[1] ?? "";
  }
  pieces.push(rest);
  if (pieces.some((piece) => piece.includes("\u{e000}"))) return undefined;
  // Cut out of a text with the marks' letters they are 16 bits a letter; joined with contents they would make those so
  // too, and the whole four times slower to encode.
  return pieces.map((piece) => JSON.parse(JSON.stringify(piece)) as string);
}

function join({ pieces }: Skeleton, messages: readonly PlainMessage[]): string {
  let text = pieces[0] ?? "";
  for (let i = 0; i < messages.length; i++) text += messages[i]!.content + (pieces[i + 1] ?? "");
  return text;
}

/** Render the true way too; a skeleton that differs is given up for good. */
function compare(
  skeletons: Map<string, Skeleton | undefined>,
  skeleton: Skeleton,
  messages: readonly PlainMessage[],
  exact: ChatRenderer,
  request: ChatRequest,
  bytes: Uint8Array,
): ReturnType<ChatRenderer["render"]> {
  const truth = exact.render(request);
  const equal = "bytes" in truth && truth.bytes.length === bytes.length && truth.bytes.every((b, i) => b === bytes[i]);
  if (equal) {
    skeleton.proofs++;
    skeleton.unchecked = 0;
  } else {
    skeletons.set(keyOf(messages), undefined);
  }
  return truth;
}
