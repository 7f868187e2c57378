/** One equation: the sum of `x[i] × unknown[i]` is about `y`. */
export interface Equation {
  readonly x: readonly number[];
  readonly y: number;
}

/**
 * The unknowns, none of them negative, for which the relative errors' squares are least: durations of 10 ms and of 10 s
 * count alike. An unknown that would be negative is taken as 0 and the rest is solved anew, the worst first.
 *
 * @param equations at least one; each `y` above 0
 * @returns as many as `x` has; an unknown that no equation tells of is 0
 */
export function nonNegativeLeastSquares(equations: readonly Equation[]): readonly number[] {
  const count = equations[0]?.x.length ?? 0;
  const used = Array.from({ length: count }, (_, i) => i).filter((i) => equations.some(({ x }) => x[i] !== 0));
  while (used.length > 0) {
    const solved = solve(equations, used);
    const least = Math.min(...solved);
    if (least >= 0) return Array.from({ length: count }, (_, i) => (used.includes(i) ? solved[used.indexOf(i)]! : 0));
    used.splice(solved.indexOf(least), 1);
  }
  return new Array<number>(count).fill(0);
}

/** How far the solution is off, as the root mean square of the relative errors, in percent. */
export function errorPercent(equations: readonly Equation[], solution: readonly number[]): number {
  let sum = 0;
  for (const { x, y } of equations) {
    const predicted = x.reduce((total, each, i) => total + each * solution[i]!, 0);
    sum += ((predicted - y) / y) ** 2;
  }
  return 100 * Math.sqrt(sum / equations.length);
}

/** Normal equations of the chosen unknowns, by Gauss's elimination; columns are scaled, so that ms and ns stand side by side. */
function solve(equations: readonly Equation[], used: readonly number[]): number[] {
  const n = used.length;
  const scale = used.map((i) => Math.sqrt(equations.reduce((sum, { x, y }) => sum + (x[i]! / y) ** 2, 0)) || 1);
  const m = Array.from({ length: n }, () => new Array<number>(n + 1).fill(0));
  for (const { x, y } of equations) {
    const row = used.map((i, k) => x[i]! / y / scale[k]!);
    for (let r = 0; r < n; r++) {
      for (let c = 0; c < n; c++) m[r]![c]! += row[r]! * row[c]!;
      m[r]![n]! += row[r]!;
    }
  }
  // Unknowns that cannot be told apart share what they explain, instead of growing without end.
  for (let i = 0; i < n; i++) m[i]![i]! += 1e-9;
  for (let i = 0; i < n; i++) {
    let pivot = i;
    for (let r = i + 1; r < n; r++) if (Math.abs(m[r]![i]!) > Math.abs(m[pivot]![i]!)) pivot = r;
    [m[i], m[pivot]] = [m[pivot]!, m[i]!];
    for (let r = i + 1; r < n; r++) {
      const factor = m[r]![i]! / m[i]![i]!;
      for (let c = i; c <= n; c++) m[r]![c]! -= factor * m[i]![c]!;
    }
  }
  const solution = new Array<number>(n).fill(0);
  for (let i = n - 1; i >= 0; i--) {
    let rest = m[i]![n]!;
    for (let c = i + 1; c < n; c++) rest -= m[i]![c]! * solution[c]!;
    solution[i] = rest / m[i]![i]!;
  }
  return solution.map((each, k) => each / scale[k]!);
}
