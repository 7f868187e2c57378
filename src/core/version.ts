/** A release number taken apart: `0.5.10.post1` is [0, 5, 10] with post 1; what follows a `+` (`+cpu`) does not order. */
interface Release {
  readonly numbers: readonly number[];
  /** Before the release: `rc1`, `a2`, `dev3`. */
  readonly before: boolean;
  readonly post: number;
}

/** The first release number in a text; undefined when there is none. Source: PEP 440, the part of it that engines use. */
function readRelease(text: string): Release | undefined {
  const found = /^\s*v?(\d+(?:\.\d+)*)(.*)$/s.exec(text);
  if (found === null) return undefined;
  const rest = (found[2] ?? "").split("+")[0] ?? "";
  return {
    numbers: (found[1] ?? "").split(".").map(Number),
    before: /^[-_.]?(a|b|c|rc|alpha|beta|pre|preview|dev)\d*/i.test(rest),
    post: Number(/^[-_.]?(?:post|rev|r)?(\d+)/i.exec(rest)?.[1] ?? -1),
  };
}

/** Is this a version number that can be compared? */
export const isVersion = (text: string): boolean => readRelease(text) !== undefined;

/**
 * Order two versions: below 0 when `a` is older. Missing numbers count as 0, a pre-release is older than its release, a post
 * release newer. What is no version is older than all.
 */
export function compareVersions(a: string, b: string): number {
  const [x, y] = [readRelease(a), readRelease(b)];
  if (x === undefined || y === undefined) return Number(x !== undefined) - Number(y !== undefined);
  for (let i = 0; i < Math.max(x.numbers.length, y.numbers.length); i++) {
    const step = (x.numbers[i] ?? 0) - (y.numbers[i] ?? 0);
    if (step !== 0) return step;
  }
  return Number(y.before) - Number(x.before) || x.post - y.post;
}

/**
 * Does a version lie in a range such as `>=0.24.0 <0.34`, `==0.26.*` or `0.32.0` (that one)? All parts must hold; "" takes every
 * version. Local parts (`+cpu`) are not looked at.
 */
export function inRange(version: string, range: string): boolean {
  return range
    .split(/[\s,]+/)
    .filter((part) => part !== "")
    .every((part) => holds(version, part));
}

function holds(version: string, part: string): boolean {
  const [, operator = "", bound = ""] = /^(>=|<=|>|<|==|=|!=)?(.*)$/.exec(part) ?? [];
  if (bound.endsWith(".*")) {
    const head = bound.slice(0, -2).split(".").map(Number);
    const numbers = readRelease(version)?.numbers ?? [];
    const same = head.every((n, i) => (numbers[i] ?? 0) === n);
    return operator === "!=" ? !same : same;
  }
  const order = compareVersions(version, bound);
  switch (operator) {
    case ">=":
      return order >= 0;
    case "<=":
      return order <= 0;
    case ">":
      return order > 0;
    case "<":
      return order < 0;
    case "!=":
      return order !== 0;
    default:
      return order === 0;
  }
}
