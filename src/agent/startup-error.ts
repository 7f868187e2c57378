import { CgnError } from "../core/errors.ts";
import type { EngineStatus } from "./engine-status.ts";

/**
 * What to say when engines could not be started; undefined when none failed. One engine's own error, or one that tells them
 * all, with the first one's code.
 */
export function startupError(engines: readonly EngineStatus[]): CgnError | undefined {
  const failed = engines.filter((engine) => engine.failed);
  const errors = failed.map(({ error, worker }) => error ?? new CgnError("ENGINE_NOT_READY", worker.reason, {}));
  const [first] = errors;
  if (first === undefined || errors.length === 1) return first as CgnError | undefined;
  const parts = errors.map((error) => {
    const tail = (error.details as { tail?: string }).tail ?? "";
    const lines = tail === "" ? [] : tail.split("\n").map((line) => `    | ${line}`);
    return [`  ${error.message}`, ...lines].join("\n");
  });
  const message = `Cannot start ${errors.length} of ${engines.length} engines:\n${parts.join("\n")}`;
  const details = {
    engines: failed.map(({ worker }) => worker.id),
    engine: "",
    exitCode: null,
    tail: "",
    model: "",
    known: [],
    problems: [],
  };
  return new CgnError(first.code, message, details, { cause: first }) as CgnError;
}
