import type { RouterSettings } from "../config/settings.ts";
import type { WorkerId } from "../core/ids.ts";
import { findEngine } from "../engines/registry.ts";
import { TransferRates } from "../routing/transfer-rates.ts";
import type { Splitter } from "./choose-way.ts";

const DEFAULTS: RouterSettings["disagg"] = { splits: true, colocateBelowTokens: 256, prefillTimeoutMs: 120_000 };

/** What is known of splitting requests: `[router.disagg]`, engines' protocols, and what hand-overs took, by decode worker. */
export function createSplitter(
  settings: RouterSettings["disagg"] = DEFAULTS,
): Splitter & { forget(worker: WorkerId): void } {
  const rates = new Map<WorkerId, TransferRates>();
  return {
    colocateBelowTokens: settings.colocateBelowTokens,
    prefillTimeoutMs: settings.prefillTimeoutMs,
    protocolOf: ({ kind }) => findEngine(kind).disaggregation,
    rates(decode) {
      let own = rates.get(decode);
      if (own === undefined) rates.set(decode, (own = new TransferRates()));
      return own;
    },
    forget: (worker) => void rates.delete(worker),
  };
}
