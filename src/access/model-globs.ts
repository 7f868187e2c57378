import type { Subject } from "./subject.ts";

const compiled = new Map<string, RegExp>();
/** Globs come from files and tokens; those of tokens must not fill the memory. */
const MAX_COMPILED = 1_000;

/** Does a glob (`*`: anything, `?`: one character) cover the whole name? In linear time: neighbouring stars are one. */
export function globMatches(glob: string, name: string): boolean {
  if (!/[*?]/.test(glob)) return glob === name;
  let pattern = compiled.get(glob);
  if (pattern === undefined) {
    pattern = new RegExp(`^${translate(glob)}$`, "su");
    if (compiled.size >= MAX_COMPILED) compiled.clear();
    compiled.set(glob, pattern);
  }
  return pattern.test(name);
}

/** A star takes as little as it can and never gives back (lookahead as an atomic group): no exponential backtracking. */
function translate(glob: string): string {
  const parts = glob.split(/\*+/).map((part) => part.replace(/[\\^$.|+()[\]{}]/g, "\\$&").replaceAll("?", "."));
  const [first = "", ...rest] = parts;
  const last = rest.pop();
  if (last === undefined) return first;
  const middle = rest.filter((part) => part !== "").map((part, i) => `(?=(?<m${i}>.*?${part}))\\k<m${i}>`);
  return `${first}${middle.join("")}.*${last}`;
}

/** May this subject ask this model? */
export function mayUseModel({ models }: Pick<Subject, "models">, model: string): boolean {
  return models === undefined || models.some((glob) => globMatches(glob, model));
}
