/** What a reload of the configuration does; it is under way when this is told. */
export interface ReloadReport {
  /** Engines that are drained and started anew, and what of each changed: arguments, names of variables, keys. */
  readonly restarted: readonly { readonly id: string; readonly changes: readonly string[] }[];
  readonly started: readonly string[];
  readonly stopped: readonly string[];
  readonly untouched: readonly string[];
  /** Keys of the router that changed and hold from the next request on. */
  readonly applied?: readonly string[];
  /** Keys or sections that changed and count when the daemon is started anew. */
  readonly later: readonly string[];
}

/** Where a reload is asked for on the admin ports, with POST. */
export const RELOAD_PATH = "/v1/cgn/reload";

/** Where an engine is given another role: POST with `?node=NODE&role=ROLE`; answered with a `ReloadReport`. */
export const ROLE_PATH = "/v1/cgn/role";
