import { createRequire } from "node:module";
import { CgnError } from "../core/errors.ts";

type ZeroMq = typeof import("zeromq");

const installed = (): unknown => createRequire(import.meta.url)("zeromq");

let loaded: ZeroMq | undefined;

/**
 * The ZeroMQ binding. It is native and an optional part of the package: everything but KV events works without it.
 * @throws CgnError NOT_SUPPORTED where it is not installed, or has no binary for this platform
 */
export function loadZeroMq(load: () => unknown = installed): ZeroMq {
  if (loaded !== undefined && load === installed) return loaded;
  try {
    loaded = load() as ZeroMq;
    return loaded;
  } catch (e) {
    const said = e instanceof Error ? (e.message.split("\n")[0] ?? "") : String(e);
    const should = "Install the optional package zeromq beside cgn, on a platform that it has a binary for";
    throw new CgnError("NOT_SUPPORTED", `Cannot use KV events: the ZeroMQ binding is missing (${said}). ${should}`, {});
  }
}

/** Why it cannot be loaded; undefined: it can. */
export function zeroMqProblem(load: typeof loadZeroMq = loadZeroMq): string | undefined {
  try {
    load();
    return undefined;
  } catch (e) {
    return e instanceof Error ? e.message : String(e);
  }
}
