import type { Engine } from "../../engines/engine.ts";

const ready = { path: "/health", verdict: () => "ready" as const };

/** An engine that tells its chat template, as plain text. */
export const llamaLike: Pick<Engine, "probe"> = {
  probe: { ready, template: { path: "/props", parse: (template) => ({ template }) } },
};

/** An engine that does not. */
export const vllmLike: Pick<Engine, "probe"> = { probe: { ready } };
