import { spansOf } from "./markdown.ts";

/** Keys by section, as docs/configuration.md (printed from the schema) lists them: `router` → `policy`, … */
function keysOf(reference: string): Map<string, Set<string>> {
  const sections = new Map<string, Set<string>>();
  for (const part of reference.split(/^## /m).slice(1)) {
    const name = /^`\[+([^\]]+?)\]+`/.exec(part)?.[1]?.replace(/\."NAME"$/, "");
    if (name === undefined) continue;
    sections.set(name, new Set([...part.matchAll(/^\| `(\w+)` \|/gm)].map(([, key = ""]) => key)));
  }
  return sections;
}

/** `[section].key` and `section.key` in code spans of a page that the configuration has not. */
export function unknownKeys(page: string, reference: string): string[] {
  const sections = keysOf(reference);
  const engine = sections.get("engine") ?? new Set();
  return spansOf(page).flatMap((span) => {
    const [, section = "", key = ""] = /^\[+([a-z][\w.]*?)(?:\."[^"]+")?\]+\.(\w+)(?: = .*)?$/.exec(span) ?? [];
    if (section === "") return [];
    // An entry of [[engines]] has the keys of [engine], and sections of its kind.
    const known = section === "engines" ? engine : sections.get(section.replace(/^engines\./, "engine."));
    if (known === undefined) return [`${span}: there is no section [${section}]`];
    return known.has(key) || sections.has(`${section}.${key}`) ? [] : [`${span}: [${section}] has no ${key}`];
  });
}
