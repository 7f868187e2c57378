import { PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** Commands whose process answers requests for a long time. */
const SERVERS: ReadonlySet<string> = new Set(["router", "up", "run"]);

/** The young generation has two halves of at most so much each. V8 would take 16 to 32 MB for each as soon as there is load. */
const HALF_MB = 8;

/**
 * What is set where nobody set it himself.
 *
 * `--heap-growing-percent`: a full collection when the old generation has grown by so much; V8's own figure is up to three times.
 * `--no-maglev`: the compiler between the quick and the thorough one wins nothing once a router is warm, and what it took while it compiled stays with
 * the C library's allocator (20 MB measured). The other two are for threads that are started later: they begin with their final size.
 */
const FLAGS: readonly string[] = [
  "--heap-growing-percent=40",
  "--no-maglev",
  `--min-semi-space-size=${HALF_MB / 2}`,
  `--max-semi-space-size=${HALF_MB}`,
];

/**
 * Keep the memory of a server small. V8 sizes its heap for the machine, and a router whose requests leave nothing behind would have 400 MB after an hour.
 * To be called before the program's modules are loaded: loading them makes the young generation grow.
 *
 * @param args the command line
 * @param given what Node itself was started with; what is named there stays as it is
 */
export function boundHeapOf(
  args: readonly string[],
  given: readonly string[] = [...process.execArgv, process.env["NODE_OPTIONS"] ?? ""],
): void {
  if (!SERVERS.has(args.find((arg) => !arg.startsWith("-")) ?? "")) return;
  const text = given.join(" ").replaceAll("_", "-");
  for (const flag of FLAGS) {
    const name = flag.replace(/^--(no-)?/, "").replace(/=.*/, "");
    if (!text.includes(name)) setFlagsFromString(flag);
  }
  if (!text.includes("semi-space")) boundYoung();
}

/**
 * Let the young generation grow to its bound and no further. It shrinks when the process idles, and must be able to grow again. It grows in collections
 * alone, by a factor: the one with which the next growth ends at the bound.
 */
function boundYoung(): void {
  let factor = 1;
  const grow = (by: number): void => {
    if (by !== factor) setFlagsFromString(`--semi-space-growth-factor=${by}`);
    factor = by;
  };
  // Not yet: what is loaded now survives, and the young generation would be at its largest before anybody could look.
  setFlagsFromString("--semi-space-growth-factor=1");
  new PerformanceObserver(() => {
    const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
    grow(Math.max(1, Math.floor((2 * HALF_MB * 2 ** 20) / Math.max(1, young?.space_size ?? 0))));
  }).observe({ entryTypes: ["gc"] });
}
