import { proseOf } from "./markdown.ts";

/** Targets of a page's links and pictures. */
export function linksOf(text: string): { readonly target: string; readonly line: number }[] {
  return proseOf(text)
    .split("\n")
    .flatMap((line, n) => {
      const plain = line.replaceAll(/`[^`]*`(?!\])/g, "");
      const found = [...plain.matchAll(/\]\(([^)\s]+)\)/g), ...plain.matchAll(/<(https?:[^>]+)>/g)];
      return found.map(([, target = ""]) => ({ target, line: n + 1 }));
    });
}

/** The anchors of a page's headings, as GitHub and the site make them. */
export function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ""] of proseOf(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = anchorOf(heading);
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

/** `How a request is split` → `how-a-request-is-split`. */
export const anchorOf = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
