import type { PlanReason, PlanWarning } from "../core/launch-plan.ts";
import { compareVersions, inRange, isVersion } from "../core/version.ts";

/**
 * Versions of an engine that its launch knows. Which of them real programs took is in `verified-data.ts`. The one source of the ranges in docs, warnings and preflight: each engine's
 * `versions.ts`.
 */
export interface EngineVersions {
  /** Rendered for these: `>=0.24.0 <0.34`. */
  readonly range: string;
  /** Rendered for when nothing is known of what is installed. */
  readonly newest: string;
  /** What changed in the rendering, for the documentation. Oldest first. */
  readonly changes: readonly { readonly since: string; readonly what: string }[];
}

/** Which version a plan is rendered for, and what there is to say about it. */
export interface RenderedFor {
  readonly version: string;
  /** `known`: in the range. `assumed`: nothing known. `outside`: out of the range, so the nearest that is known. */
  readonly how: "known" | "assumed" | "outside";
}

/**
 * The version to render for: the one that is there, else the newest known. Out of the range the nearest known one holds, since
 * flags of a later release may be refused by an older one and the other way round.
 *
 * @param found what was detected or given; undefined or no version: nothing known
 */
export function renderedFor(found: string | undefined, versions: EngineVersions): RenderedFor {
  if (found === undefined || !isVersion(found)) return { version: versions.newest, how: "assumed" };
  if (inRange(found, versions.range)) return { version: found, how: "known" };
  const newer = compareVersions(found, versions.newest) > 0;
  return { version: newer ? versions.newest : found, how: "outside" };
}

/** The lower end of the range, as a plan's requirement says it. */
export const lowestOf = ({ range }: EngineVersions): string => range.split(" ")[0] ?? "";

/** What a plan says about the version that it was rendered for: nothing when that one is installed. */
export function versionPart(
  name: string,
  found: string | undefined,
  versions: EngineVersions,
): { warnings: PlanWarning[]; reasons: PlanReason[] } {
  const { version, how } = renderedFor(found, versions);
  const source = `cgn's versions of ${name}: ${versions.range}`;
  if (how === "known") {
    return { warnings: [], reasons: [{ arg: "(version)", why: `Rendered for ${name} ${version}`, source }] };
  }
  if (how === "assumed") {
    const why = `Rendered for ${name} ${version}, the newest that is known: what is installed was not asked or not found`;
    return { warnings: [], reasons: [{ arg: "(version)", why, source }] };
  }
  const isNewer = version === versions.newest;
  const rendered = isNewer
    ? `its command is rendered as for ${version}, the newest of them`
    : "its command is rendered by what is known of older ones, which nobody tried";
  const message = `${name} ${found} is not among the versions that cgn knows (${versions.range}); ${rendered}`;
  const remedy = `Install one of them, or say with --engine-version for which one to render`;
  return {
    warnings: [{ code: "engine-version", message, remedy }],
    reasons: [{ arg: "(version)", why: message, source }],
  };
}
