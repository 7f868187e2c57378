import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { findEngine } from "../engines/registry.ts";
import { fetchText } from "../http/fetch-text.ts";
import { loadRenderer } from "./model-renderer.ts";
import { startRenderThread } from "./start-render-thread.ts";
import { createTemplates, type Templates } from "./templates.ts";

const ASK_TIMEOUT_MS = 2_000;

/** The templates of real models: from their files and their engines. */
export function createModelTemplates(options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
}): Templates {
  const { env, clock, log } = options;
  const thread = startRenderThread(clock, log);
  return createTemplates({
    clock,
    log,
    load: (worker) =>
      loadRenderer(worker, {
        env,
        engineOf: ({ kind }) => findEngine(kind),
        async ask({ url }, path) {
          const reply = await fetchText(url + path, { timeoutMs: ASK_TIMEOUT_MS });
          return reply.status === 200 ? reply.body : undefined;
        },
        now: () => new Date(clock.wall()),
        thread,
      }),
  });
}
