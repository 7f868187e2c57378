import type { Settings } from "../config/settings.ts";
import type { RouterOptions } from "../router/create-router.ts";

/** `[router].worker_threads`: 0 and 1 leave clients' connections to the main thread. */
export function routerThreads(
  { router: { workerThreads: count } }: { readonly router: Pick<Settings["router"], "workerThreads"> },
  env: Readonly<Record<string, string | undefined>>,
): Pick<RouterOptions, "threads"> {
  return count > 1 ? { threads: { count, env } } : {};
}
