/**
 * Numbers that Python, and with it chat templates, write in another way than JavaScript: `1.0`, `1e3`, integers beyond 2^53. They are
 * carried through a template as marked texts, and take their place in what it has made.
 */
const ODD = /\d\.\d*0(?!\d)|\d[eE][-+\d]|\d{16}/;

const OPEN = "\u{e010}";
const CLOSE = "\u{e011}";
const MARKED = /"\u{e010}([-+.\deE]+)\u{e011}"|\u{e010}([-+.\deE]+)\u{e011}/gu;

/** Might a JSON text have such numbers? Digits in its strings count too. */
export function hasOddNumbers(json: string): boolean {
  return ODD.test(json);
}

/** `JSON.parse()`, but for odd numbers, which become marked texts. @throws SyntaxError */
export function parseExact(json: string): unknown {
  if (!ODD.test(json)) return JSON.parse(json);
  return JSON.parse(json, ((_key: string, value: unknown, context?: { readonly source?: string }) => {
    const { source } = context ?? {};
    return typeof value === "number" && source !== undefined && ODD.test(source)
      ? OPEN + asPython(source) + CLOSE
      : value;
  }) as (key: string, value: unknown) => unknown);
}

/** Put marked numbers into their places in a text that a template made, with the quotes that `tojson` put around them. */
export function withNumbers(text: string): string {
  return text.includes(OPEN) ? text.replace(MARKED, (_, quoted?: string, bare?: string) => quoted ?? bare ?? "") : text;
}

/** A number's text as Python's `repr()` of it: integers as they are, floats shortest, with an exponent from 1e16 and below 1e-4. */
function asPython(source: string): string {
  if (!/[.eE]/.test(source)) return source;
  const value = Number(source);
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  const exponent = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  if (exponent >= 16 || exponent < -4) {
    return value.toExponential().replace(/e([-+])(\d)$/, (_, sign: string, digit: string) => `e${sign}0${digit}`);
  }
  const text = Object.is(value, -0) ? "-0" : String(value);
  return text.includes(".") ? text : `${text}.0`;
}
