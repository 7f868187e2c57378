/** An answer other than 200. */
export interface Failure {
  readonly status: number;
  readonly body: object;
}

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  404: "not_found_error",
  500: "server_error",
  501: "not_supported_error",
  503: "unavailable_error",
};

/** llama-server's error body; `more` stands beside the message. */
export function failure(status: number, message: string, more: Readonly<Record<string, unknown>> = {}): Failure {
  return { status, body: { error: { code: status, message, type: TYPES[status], ...more } } };
}

/** A request is refused. Routes turn it into its answer. */
export class LlamaRefusal extends Error {
  readonly failure: Failure;

  constructor(status: number, message: string, more: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.failure = failure(status, message, more);
  }
}

/** What the JSON library calls a value. */
function typeName(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** The JSON library's words for a value of another type. */
export const typeError = (wanted: string, value: unknown): string =>
  `[json.exception.type_error.302] type must be ${wanted}, but is ${typeName(value)}`;

/** The JSON library's words for a missing key. */
export const missingKey = (key: string): string => `[json.exception.out_of_range.403] key '${key}' not found`;

/**
 * Read a body. What is wrong is told in the JSON library's words as far as they are simple: where and after which token
 * it stopped is the library's own business.
 * @throws LlamaRefusal
 */
export function readBody(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    const column = text.length + 1;
    const head = `[json.exception.parse_error.101] parse error at line 1, column ${column}: `;
    if (text === "") {
      throw new LlamaRefusal(
        400,
        `${head}attempting to parse an empty input; check that your input string or stream contains the expected JSON`,
      );
    }
    const what = /[{,]\s*$/.test(text) && !/\[[^\]]*$/.test(text) ? "object key" : "value";
    const expected = what === "value" ? "'[', '{', or a literal" : "string literal";
    throw new LlamaRefusal(
      400,
      `${head}syntax error while parsing ${what} - unexpected end of input; expected ${expected}`,
    );
  }
}
