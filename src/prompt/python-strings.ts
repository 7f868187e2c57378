/** A node of a template's syntax tree, as far as it is looked at here. */
interface Node {
  type: string;
  [member: string]: unknown;
}

const METHODS: Readonly<Record<string, string>> = { strip: "__strip", lstrip: "__lstrip", rstrip: "__rstrip" };

const FILTERS: Readonly<Record<string, string>> = { trim: "__trim", string: "__str" };

/**
 * Let a template's `strip(…)`, `lstrip(…)`, `rstrip(…)`, `trim` and `string` do what Python's do: the letters that are named
 * go, white space is what it is for Python, and values are spelled as `str()` spells them. The interpreter (@huggingface/jinja 0.5.11)
 * takes JavaScript's ways for all of them.
 * Changes the tree; `stripFunctions()` must be among the names that the template may use.
 */
export function withPythonStrings<T extends object>(tree: T): T {
  rewrite(tree);
  return tree;
}

function rewrite(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) rewrite(item);
    return;
  }
  if (value instanceof Map) {
    for (const [key, member] of value) {
      rewrite(key);
      rewrite(member);
    }
    return;
  }
  for (const member of Object.values(value)) rewrite(member);
  if (isNode(value)) call(value);
}

/** `x.strip(y)` and `x | trim` become `__strip(x, y)`; `x | string` becomes `__str(x)`. */
function call(node: Node): void {
  const { type, callee, operand, filter } = node;
  if (
    type === "CallExpression" &&
    isNode(callee) &&
    callee.type === "MemberExpression" &&
    callee["computed"] === false
  ) {
    const { object, property } = callee;
    const name = isNode(property) ? METHODS[String(property["value"])] : undefined;
    if (name === undefined) return;
    node["callee"] = { type: "Identifier", value: name };
    node["args"] = [object, ...(node["args"] as unknown[])];
  } else if (type === "FilterExpression" && isNode(filter)) {
    const named = filter.type === "CallExpression" ? filter["callee"] : filter;
    const name = isNode(named) ? FILTERS[String(named["value"])] : undefined;
    if (name === undefined) return;
    const args = filter.type === "CallExpression" ? (filter["args"] as unknown[]) : [];
    for (const member of Object.keys(node)) delete node[member];
    Object.assign(node, {
      type: "CallExpression",
      callee: { type: "Identifier", value: name },
      args: [operand, ...args],
    });
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}

/** Python's `str.isspace()`: JavaScript's white space without U+FEFF, and with the separators of ASCII and U+0085. */
export function isPythonBlank(letter: string): boolean {
  const code = letter.charCodeAt(0);
  return (code >= 0x1c && code <= 0x1f) || code === 0x85 || (code !== 0xfeff && /\s/.test(letter));
}

/** C's `isspace()` in the C locale. */
export const isAsciiBlank = (letter: string): boolean => letter === " " || (letter >= "\t" && letter <= "\r");

/** The functions that rewritten templates call. */
export function stripFunctions(asciiBlanks: boolean): Readonly<Record<string, unknown>> {
  const isBlank = asciiBlanks ? isAsciiBlank : isPythonBlank;
  const strip = (start: boolean, end: boolean) => (text: unknown, letters: unknown) => {
    if (typeof text !== "string") throw new Error("only a text can be stripped");
    const isOff = typeof letters === "string" ? (letter: string) => letters.includes(letter) : isBlank;
    let [from, to] = [0, text.length];
    if (start) while (from < to && isOff(text[from]!)) from++;
    if (end) while (to > from && isOff(text[to - 1]!)) to--;
    return text.slice(from, to);
  };
  const trim = strip(true, true);
  const __trim = (value: unknown, letters: unknown) => trim(pythonStr(value), letters);
  return { __trim, __str: pythonStr, __strip: trim, __lstrip: strip(true, false), __rstrip: strip(false, true) };
}

/** Python's `str()` of a value as the interpreter hands it to functions: lists and objects have values of its own in them. */
function pythonStr(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : pythonRepr(value);
}

function pythonRepr(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map((item) => pythonRepr(inner(item))).join(", ")}]`;
  if (!(value instanceof Map)) return String(value);
  const members = [...value].map(([key, member]) => `${quoted(String(key))}: ${pythonRepr(inner(member))}`);
  return `{${members.join(", ")}}`;
}

/** The interpreter's own values have what they stand for in `value`. */
function inner(item: unknown): unknown {
  return typeof item === "object" && item !== null && "value" in item ? item.value : item;
}

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

/** Letters that Python does not print: control, format and private ones, separators but the space. */
const UNPRINTED = /[\p{C}\p{Z}]/u;

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let out = quote;
  for (const letter of text) {
    if (letter === quote) out += `\\${letter}`;
    else if (letter === " " || !(UNPRINTED.test(letter) || letter === "\\")) out += letter;
    else out += ESCAPES[letter] ?? hex(letter.codePointAt(0)!);
  }
  return out + quote;
}

function hex(code: number): string {
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}
