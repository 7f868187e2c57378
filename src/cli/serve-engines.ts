import type { Agent } from "../agent/agent.ts";
import type { EngineStatus } from "../agent/engine-status.ts";
import { startupError } from "../agent/startup-error.ts";
import type { CliContext } from "./command.ts";
import { showEngines } from "./engine-progress.ts";
import { stopped } from "./stop-code.ts";

/**
 * Show the engines' start, call `up` once one of them can serve, then wait until the command is told to end. One engine that
 * works is enough; those that failed are told.
 * @param hasReloaded another configuration than that of the start is in use: then a failure of all is no end
 * @throws CgnError when no engine is left that could serve: whoever watches the unit must see it
 */
export async function serveEngines(
  agent: Agent,
  cli: Pick<CliContext, "err" | "signal">,
  up: (engines: readonly EngineStatus[]) => void = () => {},
  hasReloaded: () => boolean = () => false,
): Promise<void> {
  const first = await showEngines(agent, cli.signal);
  if (first === undefined) return;
  throwWhenAllFailed(first);
  for (const { error } of first) if (error !== undefined) cli.err(`cgn: ${error.message}`);
  up(first);
  await new Promise<void>((resolve, reject) => {
    void stopped(cli.signal).then(resolve);
    agent.subscribe(() => {
      // A file that is mended can be reloaded again.
      if (hasReloaded()) return;
      try {
        throwWhenAllFailed(agent.status());
      } catch (error) {
        reject(error);
      }
    });
  });
}

function throwWhenAllFailed(engines: readonly EngineStatus[]): void {
  if (!engines.every(({ failed }) => failed)) return;
  const error = startupError(engines);
  if (error !== undefined) throw error;
}
