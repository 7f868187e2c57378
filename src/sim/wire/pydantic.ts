/** The checks of pydantic models as FastAPI reports them: what vLLM and SGLang say of a body whose members have the wrong type. */

/** One finding: where, and pydantic's words. */
export interface Finding {
  readonly type: string;
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  readonly input: unknown;
  readonly ctx?: Readonly<Record<string, unknown>>;
}

/** How a member is read. Numbers may come as text, booleans as 0 and 1, as pydantic takes them. */
export type FieldType = "int" | "float" | "bool" | "str" | "list" | "dict" | "stop" | "model";

type Body = Readonly<Record<string, unknown>>;

/** Check the members of a body that have a type. A member that is null or missing is right. */
export function checkTypes(body: Body, types: Readonly<Record<string, FieldType>>): readonly Finding[] {
  return Object.entries(types).flatMap(([name, type]) => {
    const value = body[name];
    return value === undefined || value === null ? [] : check(type, value, ["body", name]);
  });
}

function check(type: FieldType, input: unknown, loc: readonly (string | number)[]): readonly Finding[] {
  const one = (kind: string, msg: string, ctx?: Finding["ctx"]): readonly Finding[] => [
    { type: kind, loc, msg, input, ...(ctx === undefined ? {} : { ctx }) },
  ];
  switch (type) {
    case "int":
      return checkInt(input, one);
    case "float":
      if (typeof input === "number" || isNumber(input)) return [];
      return typeof input === "string"
        ? one("float_parsing", "Input should be a valid number, unable to parse string as a number")
        : one("float_type", "Input should be a valid number");
    case "bool":
      if (typeof input === "boolean" || input === 0 || input === 1 || isTruth(input)) return [];
      return typeof input === "string" || typeof input === "number"
        ? one("bool_parsing", "Input should be a valid boolean, unable to interpret input")
        : one("bool_type", "Input should be a valid boolean");
    case "str":
      return typeof input === "string" ? [] : one("string_type", "Input should be a valid string");
    case "list":
      return Array.isArray(input) ? [] : one("list_type", "Input should be a valid list");
    case "dict":
      return isObject(input) ? [] : one("dict_type", "Input should be a valid dictionary");
    case "model":
      return isObject(input)
        ? []
        : one("model_attributes_type", "Input should be a valid dictionary or object to extract fields from");
    case "stop":
      return checkStop(input, loc);
  }
}

type One = (kind: string, msg: string) => readonly Finding[];

function checkInt(input: unknown, one: One): readonly Finding[] {
  if (typeof input === "number") {
    return Number.isInteger(input)
      ? []
      : one("int_from_float", "Input should be a valid integer, got a number with a fractional part");
  }
  if (typeof input === "boolean" || (typeof input === "string" && /^\s*[+-]?\d+\s*$/.test(input))) return [];
  return typeof input === "string"
    ? one("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
    : one("int_type", "Input should be a valid integer");
}

/** A text, or a list of texts. */
function checkStop(input: unknown, loc: readonly (string | number)[]): readonly Finding[] {
  if (typeof input === "string") return [];
  const text: Finding = { type: "string_type", loc, msg: "Input should be a valid string", input };
  if (!Array.isArray(input)) return [text, { type: "list_type", loc, msg: "Input should be a valid list", input }];
  const wrong = input.flatMap((each: unknown, i) => (typeof each === "string" ? [] : check("str", each, [...loc, i])));
  return wrong.length === 0 ? [] : [text, ...wrong];
}

/** A required member that is not there. */
export const missing = (name: string, body: unknown): Finding => ({
  type: "missing",
  loc: ["body", name],
  msg: "Field required",
  input: body,
});

/** Texts that are taken for a truth value. */
const TRUE = ["1", "on", "t", "true", "y", "yes"];
const FALSE = ["0", "off", "f", "false", "n", "no"];
const isTruth = (value: unknown): boolean =>
  typeof value === "string" && [...TRUE, ...FALSE].includes(value.toLowerCase());

const isObject = (value: unknown): value is Body =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isNumber = (value: unknown): boolean =>
  typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value));

/** Texts where numbers belong become numbers: what comes after has them as they are meant. */
export function coerced(body: Body, types: Readonly<Record<string, FieldType>>): Body {
  const changed: Record<string, unknown> = { ...body };
  for (const [name, type] of Object.entries(types)) {
    const value = body[name];
    if (typeof value === "string" && (type === "int" || type === "float")) changed[name] = Number(value);
    if (type === "bool" && typeof value === "number") changed[name] = value === 1;
    if (type === "bool" && typeof value === "string") changed[name] = TRUE.includes(value.toLowerCase());
  }
  return changed;
}

/** An input as vLLM shows it: sizes instead of contents. */
function shortInput(input: unknown): string {
  if (input === null || input === undefined) return "'None'";
  if (Array.isArray(input)) return `'<list of ${input.length} items>'`;
  if (typeof input === "object") return `'<dict of ${Object.keys(input).length} items>'`;
  return `'${typeof input === "boolean" ? (input ? "True" : "False") : String(input)}'`;
}

const quoted = (text: string): string => (text.includes("'") ? `"${text}"` : `'${text}'`);

/** vLLM 0.32.0's text for findings. */
export function vllmFindings(findings: readonly Finding[]): string {
  const lines = findings.map(({ type, loc, msg, input, ctx }) => {
    const place = loc.join(".");
    const more =
      ctx === undefined
        ? ""
        : `, 'ctx': {${Object.entries(ctx)
            .map(([k, v]) => `'${k}': ${typeof v === "number" ? v : quoted(String(v))}`)
            .join(", ")}}`;
    return `  {'type': '${type}', 'loc': '${place}', 'msg': ${quoted(msg)}, 'input': ${shortInput(input)}${more}}`;
  });
  return `${findings.length} validation error${findings.length === 1 ? "" : "s"}:\n${lines.join("\n")}`;
}

/** A Python value that has no JSON: its `repr`. */
export class PythonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Python's `repr` of a JSON value. */
export function pythonRepr(value: unknown): string {
  if (value instanceof PythonText) return value.text;
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(", ")}]`;
  if (typeof value !== "object") return String(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `'${key}': ${pythonRepr(inner)}`)
    .join(", ")}}`;
}

/** SGLang 0.5.23's text for findings: a list, and where in its sources the route is. */
export function sglangFindings(findings: readonly Finding[], path: string): string {
  const shown = findings.map(({ type, loc, msg, input, ctx }) => {
    const place = loc.map((part) => pythonRepr(part)).join(", ");
    const more = ctx === undefined ? "" : `, 'ctx': ${pythonRepr(ctx)}`;
    return `{'type': '${type}', 'loc': (${place}${loc.length === 1 ? "," : ""}), 'msg': ${quoted(msg)}, 'input': ${pythonRepr(input)}${more}}`;
  });
  const head = `${findings.length} validation error${findings.length === 1 ? "" : "s"}:\n${shown.map((one) => `  ${one}`).join("\n")}`;
  const name = path.replace(/^\/(v1\/)?/, "").replaceAll("/", "_");
  const route = name === "responses" ? "v1_responses_request" : `openai_v1_${name}`;
  return `${head}\n\n  File "sglang/srt/entrypoints/http_server.py", line 1870, in ${route}\n    POST ${path} [${shown.join(", ")}]`;
}
