import type { Exchange } from "./accept.ts";

/** Who asks, as metrics and limits name them. */
export interface Subject {
  readonly name: string;
  /** The router itself checked the caller's key: then it is not the engine's business and is not forwarded. */
  readonly authenticated: boolean;
}

const ANONYMOUS: Subject = { name: "anonymous", authenticated: false };

/** Say who asks. Without keys in the configuration everybody is `anonymous`, and `Authorization` goes to the engine. */
export function identify(_exchange: Exchange): Subject {
  return ANONYMOUS;
}
