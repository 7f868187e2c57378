import { type Access, openAccess } from "../access/access.ts";
import type { Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";

/** What the router takes of `[auth]`, `[router.rate_limit]` and the models' limits. */
export interface AccessParts {
  readonly access: Access;
  readonly protectMetrics: boolean;
  /** `[auth].engine_key` */
  engineKey(): string | undefined;
  readonly maxPromptTokens: ReadonlyMap<string, number>;
}

/**
 * Open keys file, issuer and Redis as the configuration says.
 * @throws CgnError CONFIG_INVALID, STORAGE_UNUSABLE for the keys file
 */
export async function openAccessOf(
  settings: Settings,
  deps: { readonly clock: Clock; readonly log: Log },
): Promise<AccessParts> {
  const { auth, router, cluster, models } = settings;
  return {
    access: await openAccess({ auth, rateLimit: router.rateLimit, cluster: cluster.name }, deps),
    protectMetrics: auth.protectMetrics,
    engineKey: () => auth.engineKey,
    maxPromptTokens: new Map(
      models.flatMap(({ name, maxPromptTokens: limit }) => (limit === undefined ? [] : [[name, limit] as const])),
    ),
  };
}
