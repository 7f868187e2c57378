import { type AddedToken, addedTokens, componentParts } from "./tokenizer-json.ts";

/** Rewrites a rendered prompt to the text that its tokens spell. */
export type TextNormalizer = (text: string) => string;

type Part = Readonly<Record<string, unknown>>;

/**
 * What a `tokenizer.json` does to text before it splits it, undone where its vocabulary undoes it: Unicode normal forms,
 * SentencePiece's space before a text, white space that special tokens swallow. The decoded ids of a prompt then equal
 * the rewritten prompt, byte for byte; the parity probe proves it for each model.
 * @returns undefined when the text stays as it is
 */
export function textNormalizer(tokenizer: unknown): TextNormalizer | undefined {
  const { normalizer, pre_tokenizer } = (tokenizer ?? {}) as Part;
  const steps = componentParts(normalizer).flatMap(normalizerStep);
  for (const part of componentParts(pre_tokenizer)) {
    if (part["type"] === "Metaspace" && (part["prepend_scheme"] ?? "always") !== "never") steps.push(spaceBefore);
    if (part["type"] === "ByteLevel" && part["add_prefix_space"] === true) steps.push(spaceBefore);
  }
  const specials = addedTokens(tokenizer).filter((token) => !token.normalized);
  const strips = specials.some((token) => token.lstrip || token.rstrip);
  if (steps.length === 0 && !strips) return undefined;
  const segment = (text: string) => steps.reduce((sofar, step) => step(sofar), text);
  return (text) => bySegment(text, specials, segment);
}

const spaceBefore: TextNormalizer = (text) => (text === "" || text.startsWith(" ") ? text : ` ${text}`);

/** U+2581 stands for a space throughout, so replacing one by the other changes nothing here. */
function normalizerStep(part: Part): readonly TextNormalizer[] {
  const type = part["type"];
  if (type === "NFC" || type === "NFD" || type === "NFKC" || type === "NFKD") return [(text) => text.normalize(type)];
  if (type === "Lowercase") return [(text) => text.toLowerCase()];
  if (type === "Prepend") return [(text) => (text === "" ? text : marks(String(part["prepend"])) + text)];
  if (type === "Replace") {
    const { String: literal } = (part["pattern"] ?? {}) as Part;
    const content = marks(String(part["content"]));
    if (typeof literal !== "string" || marks(literal) === content) return [];
    return [(text) => text.replaceAll(literal, content)];
  }
  return [];
}

const marks = (text: string): string => text.replaceAll("\u2581", " ");

/** Apply `segment` to what stands between special tokens; they themselves stay, and swallow the white space they are said to. */
function bySegment(text: string, specials: readonly AddedToken[], segment: TextNormalizer): string {
  let out = "";
  let from = 0;
  let stripLeft = false;
  for (const { at, token } of occurrences(text, specials)) {
    if (at < from) continue;
    out += segment(trim(text.slice(from, at), stripLeft, token.lstrip)) + token.text;
    from = at + token.text.length;
    stripLeft = token.rstrip;
  }
  return out + segment(trim(text.slice(from), stripLeft, false));
}

function trim(text: string, start: boolean, end: boolean): string {
  const left = start ? text.trimStart() : text;
  return end ? left.trimEnd() : left;
}

/** Special tokens in order of place; at one place the longest first, as the tokenizers library takes them. */
function* occurrences(text: string, specials: readonly AddedToken[]): Generator<{ at: number; token: AddedToken }> {
  const byText = new Map(specials.filter((token) => token.text !== "").map((token) => [token.text, token]));
  const longestFirst = [...byText.keys()].sort((a, b) => b.length - a.length).map(escapeForRegExp);
  if (longestFirst.length === 0) return;
  for (const found of text.matchAll(new RegExp(longestFirst.join("|"), "g"))) {
    yield { at: found.index, token: byText.get(found[0])! };
  }
}

function escapeForRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
