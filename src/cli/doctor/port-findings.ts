import type { PortHolder } from "../../process/port-holder.ts";
import type { Diagnosis } from "./diagnosis.ts";

/** A port that cgn would listen on, and who does. */
export interface PortLook {
  readonly port: number;
  /** What listens there, in words: "the endpoint". */
  readonly what: string;
  /** The key that moves it. */
  readonly key: string;
  /** Undefined: it is free. */
  readonly taken?: { readonly holder?: PortHolder };
}

/** Is it a cgn: `node cgn.ts`, `cgn up` as a single program? */
export const isCgn = ({ command }: PortHolder): boolean => /(^|[\s/])cgn(-\w+)?(\.[jt]s)?$/.test(command);

/** Who listens where cgn would. Pure. */
export function portFindings(looks: readonly PortLook[]): Diagnosis[] {
  return looks.map(({ port, what, key, taken }): Diagnosis => {
    const base = { area: "ports", what: `${port} (${what}) is free` };
    if (taken === undefined) return { ...base, level: "good" };
    const { holder } = taken;
    const by = holder === undefined ? "a process of another user" : `${holder.command} (pid ${holder.pid})`;
    if (holder !== undefined && isCgn(holder)) {
      return { ...base, level: "good", what: `${port} (${what}) is held by ${by}: a cgn that runs` };
    }
    return {
      ...base,
      level: "warning",
      what: `${port} (${what}) is in use by ${by}`,
      why: "cgn ends with exit code 7 when it cannot listen there",
      mend: `End that process, or set ${key} to another port`,
      ...(holder === undefined ? {} : { fix: `kill ${holder.pid}` }),
      code: "port-in-use",
    };
  });
}
