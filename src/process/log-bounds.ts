/** How much of a process's output is kept. */
export interface LogBounds {
  /** A file that would grow above this is rotated: `PATH` becomes `PATH.1`, that `PATH.2`, … */
  readonly fileBytes: number;
  /** Files in all, the newest included; at least 1. */
  readonly files: number;
}

export const DEFAULT_LOG_BOUNDS: LogBounds = { fileBytes: 16 * 1024 * 1024, files: 4 };

/** The rotated files of a log, from the one rotated last to the oldest that may be there. */
export function rotatedNames(path: string, files: number): string[] {
  return Array.from({ length: Math.max(0, files - 1) }, (_, n) => `${path}.${n + 1}`);
}
