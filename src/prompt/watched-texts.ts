import { parse, tokenize } from "@huggingface/jinja";

/** Words of templates that are in any text, and never a test on contents. */
const COMMON = new Set(["role", "content", "system", "user", "assistant", "tool", "name", "text", "type", "function"]);

/** Can this text make a template do something else than another text would? */
export type TextWatch = (text: string) => boolean;

interface Found {
  /** Looked for in contents: `x in content`, `content.split(x)`. */
  readonly inside: Set<string>;
  /** Compared with whole contents. */
  readonly whole: Set<string>;
}

/**
 * Watches for the texts that a template looks for in others, or compares them with. What it only prints is not among them.
 * @param more - texts to look for besides
 */
export function watchTexts(template: string, more: readonly string[]): TextWatch {
  const found: Found = { inside: new Set(more), whole: new Set() };
  collect(parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true })), undefined, found);
  const longest = Math.max(0, ...[...found.whole].map((text) => text.length)) + 16;
  const isInside = search([...found.inside]);
  return (text) => (text.length <= longest && found.whole.has(text.trim())) || isInside(text);
}

/** Searches for more texts are slower than one expression: 4 µs each for 32 KB, or 13 µs for any number. */
const FEW = 2;

function search(texts: readonly string[]): TextWatch {
  if (texts.length <= FEW) return (text) => texts.some((one) => text.includes(one));
  const expression = new RegExp(texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"));
  return (text) => expression.test(text);
}

type Use = keyof Found | undefined;

function collect(node: unknown, use: Use, found: Found): void {
  if (typeof node !== "object" || node === null) return;
  if (Array.isArray(node) || node instanceof Map) {
    for (const item of node.values()) collect(item, use, found);
    return;
  }
  const { type, value } = node as { readonly [member: string]: unknown };
  if (type === "StringLiteral" && typeof value === "string") {
    const bare = value.trim();
    if (use !== undefined && bare.length > 1 && !COMMON.has(bare)) found[use].add(bare);
  } else if (type === "BinaryExpression") collectComparison(node as Comparison, use, found);
  else if (type === "CallExpression") {
    const { callee, args } = node as { readonly callee: { readonly type?: string }; readonly args: unknown };
    collect(callee, use, found);
    // Methods look into their object; functions and macros are given names and messages.
    collect(args, callee.type === "MemberExpression" ? "inside" : undefined, found);
  } else for (const member of Object.values(node)) collect(member, use, found);
}

interface Comparison {
  readonly operator: { readonly value: string };
  readonly left: unknown;
  readonly right: unknown;
}

function collectComparison({ operator, left, right }: Comparison, use: Use, found: Found): void {
  const equals = operator.value === "==" || operator.value === "!=";
  const contains = operator.value === "in" || operator.value === "not in";
  collect(left, contains ? "inside" : equals ? "whole" : use, found);
  collect(right, contains || equals ? "whole" : use, found);
}
