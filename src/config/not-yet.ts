import type { KeyPath } from "./key-path.ts";

/** A key that asks for what cgn does not do. */
export interface Unsupported {
  readonly path: KeyPath;
  /** Does this value ask for it? A switch that is off asks for nothing. */
  readonly asks: (value: unknown) => boolean;
  readonly problem: string;
  readonly remedy: string;
}

export const isOn = (value: unknown): boolean => value === true;
export const isGiven = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined && value !== "";

const NOTHING = "the key does nothing in this version of cgn";

/**
 * Keys whose meaning is settled and whose part of cgn is not there yet. Whoever builds the part removes the row; until
 * then nobody believes that a limit, a key or a certificate protects him.
 */
export const NOT_YET: readonly Unsupported[] = [
  {
    path: ["router", "listen_grpc"],
    asks: isGiven,
    problem: `${NOTHING}: the router has no gRPC service`,
    remedy: "Remove it; cgn-kvcached ([kv].listen) and the agent ([agent].listen) serve gRPC",
  },
  {
    path: ["metrics", "scrape_targets"],
    asks: isGiven,
    problem: `${NOTHING}: only engines' metrics are read`,
    remedy: "Let Prometheus read these targets itself",
  },
];

/** The same below each `[models."NAME"]`. */
export const NOT_YET_PER_MODEL: readonly Unsupported[] = [];
