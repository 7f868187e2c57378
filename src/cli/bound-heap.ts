import { constants, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** Commands whose process answers requests for a long time. */
const SERVERS: ReadonlySet<string> = new Set(["router", "up", "run"]);

/** The young generation has two halves of so much each. V8 would take 16 to 64 MB for each as soon as there is load. */
const HALF_MB = 8;

/**
 * What is set where nobody set it himself.
 *
 * `--heap-growing-percent`: a full collection when the old generation has grown by so much; V8's own figure is up to three times.
 * `--no-maglev`: the compiler between the quick and the thorough one wins nothing once a router is warm, and what it took while it compiled stays with
 * the C library's allocator (20 MB measured). The other two are for threads that are started later: they begin with half of their final size, and do not grow.
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

/** The bound is doubled, twice at most, where collecting young objects takes more than this share of two seconds: there are many large requests at once. */
const BUSY_SHARE = 0.2;
const WINDOW_MS = 2_000;
const MOST_HALF_MB = 4 * HALF_MB;

/**
 * Let the young generation grow to its bound and no further. It shrinks when the process idles, and must be able to grow again. It grows in collections
 * alone, by a factor: the one with which the next growth ends at the bound.
 */
function boundYoung(): void {
  let factor = 1;
  let halfMb = HALF_MB;
  const share = new BusyShare();
  const grow = (by: number): void => {
    if (by !== factor) setFlagsFromString(`--semi-space-growth-factor=${by}`);
    factor = by;
  };
  // Not yet: what is loaded now survives, and the young generation would be at its largest before anybody could look.
  setFlagsFromString("--semi-space-growth-factor=1");
  new PerformanceObserver((list) => {
    for (const { startTime, duration, detail } of list.getEntries() as readonly GcEntry[])
      if (detail?.kind === constants.NODE_PERFORMANCE_GC_MINOR) share.add(startTime, duration);
    const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
    const mb = (young?.space_size ?? 0) / 2 ** 20;
    if (mb >= 2 * halfMb && halfMb < MOST_HALF_MB && share.takeBusy()) halfMb *= 2;
    grow(Math.max(1, Math.floor((2 * halfMb) / Math.max(1, mb))));
  }).observe({ entryTypes: ["gc"] });
}

type GcEntry = PerformanceEntry & { readonly detail?: { readonly kind?: number } };

/** How much of the time is spent on collections of young objects. */
class BusyShare {
  #sinceMs = 0;
  #spentMs = 0;
  /** It was more than the share in the window that was over last. */
  #busy = false;

  add(startMs: number, tookMs: number): void {
    const lengthMs = startMs - this.#sinceMs;
    this.#spentMs += tookMs;
    if (lengthMs < WINDOW_MS) return;
    this.#busy = this.#spentMs > BUSY_SHARE * lengthMs;
    this.#sinceMs = startMs;
    this.#spentMs = 0;
  }

  /** Was it too much? Told once. */
  takeBusy(): boolean {
    const busy = this.#busy;
    this.#busy = false;
    return busy;
  }
}
