import type { EngineDraft } from "./engine-drafts.ts";
import { type LoadContext, report } from "./load-context.ts";
import { nearest } from "./problems.ts";
import type { EngineSettings } from "./settings.ts";

/**
 * Find the engines that `start_after` names: by model, node_id or NODE/MODEL. A name of several means all of them.
 * @param partial only some engines of the file are looked at, so a name that is not among them is no mistake
 */
export function orderStarts(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  engines: readonly EngineSettings[],
  partial: boolean,
): EngineSettings[] {
  const ordered = engines.map((settings, n) => {
    const urls = new Set<string>();
    for (const [k, name] of (drafts[n]!.common.start_after ?? []).entries()) {
      const found = engines.filter((other) => other !== settings && namesOf(other).includes(name));
      for (const { url } of found) urls.add(url);
      if (found.length > 0 || partial) continue;
      const known = engines.filter((other) => other !== settings).flatMap(namesOf);
      const near = nearest(name, known);
      report(ctx, [...drafts[n]!.entry.path, "start_after", k], {
        problem: `no other engine of this file is called "${name}"`,
        remedy: near === undefined ? `Use one of ${[...new Set(known)].join(", ")}` : `Did you mean "${near}"?`,
      });
    }
    return { ...settings, startAfter: [...urls] };
  });
  for (const [n, settings] of ordered.entries()) {
    if (!waitsFor(ordered, settings, settings.url)) continue;
    report(ctx, [...drafts[n]!.entry.path, "start_after"], {
      problem: "the engine waits for itself, by way of the engines that it names",
      remedy: "Take one of them out of the circle",
    });
    return ordered.map((each) => ({ ...each, startAfter: [] }));
  }
  return ordered;
}

const namesOf = ({ nodeId, model }: EngineSettings): string[] => [model.name, nodeId, `${nodeId}/${model.name}`];

/** Does an engine wait for another, directly or by way of others? */
function waitsFor(engines: readonly EngineSettings[], from: EngineSettings, url: string): boolean {
  const seen = new Set<string>();
  const next = [...from.startAfter];
  for (let at = next.pop(); at !== undefined; at = next.pop()) {
    if (at === url) return true;
    if (seen.has(at)) continue;
    seen.add(at);
    next.push(...(engines.find((each) => each.url === at)?.startAfter ?? []));
  }
  return false;
}
