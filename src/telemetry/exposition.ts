/** One sample of a Prometheus text. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", "\\": "\\", '"': '"' };

/** Read a Prometheus text. Lines that are none are skipped; `+Inf` and `NaN` are what they say. */
export function parseExposition(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    const found = LINE.exec(line);
    if (found === null) continue;
    const [, name = "", inner = "", figure = ""] = found;
    const labels: Record<string, string> = {};
    for (const [, label = "", value = ""] of inner.matchAll(LABEL))
      labels[label] = value.replace(/\\(.)/g, (_all, c: string) => ESCAPES[c] ?? c);
    const value =
      figure === "+Inf" ? Number.POSITIVE_INFINITY : figure === "-Inf" ? Number.NEGATIVE_INFINITY : Number(figure);
    samples.push({ name, labels, value });
  }
  return samples;
}
