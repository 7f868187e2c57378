/** Steps from the root of a configuration to a value: table keys and list indexes. */
export type KeyPath = readonly (string | number)[];

/** Print a path the way TOML spells keys, list indexes in brackets: `models."a.b".tp`, `engines[1].kind`. "" for the root. */
export function formatKeyPath(path: KeyPath): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else text += (text === "" ? "" : ".") + (/^[A-Za-z0-9_-]+$/.test(step) ? step : JSON.stringify(step));
  }
  return text;
}

/**
 * Read what `formatKeyPath()` prints; `engines.1.kind` means the same as `engines[1].kind`, and a key may stand in single quotes.
 * @returns undefined when the text is no path (empty steps, open quotes)
 */
export function parseKeyPath(text: string): KeyPath | undefined {
  const path: (string | number)[] = [];
  const step = /(?:^|\.)(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))|\[(\d+)\]/y;
  let at = 0;
  while (at < text.length) {
    step.lastIndex = at;
    const found = step.exec(text);
    if (found === null || found[0].length === 0) return undefined;
    const [whole, basic, literal, bare, index] = found;
    if (index !== undefined) path.push(Number(index));
    else if (basic !== undefined) {
      const key = unescaped(basic);
      if (key === undefined) return undefined;
      path.push(key);
    } else if (literal !== undefined) path.push(literal);
    else if (bare !== undefined) path.push(path.length > 0 && /^\d+$/.test(bare) ? Number(bare) : bare);
    at += whole.length;
  }
  return path.length === 0 ? undefined : path;
}

function unescaped(basic: string): string | undefined {
  try {
    return JSON.parse(`"${basic}"`) as string;
  } catch {
    return undefined;
  }
}
