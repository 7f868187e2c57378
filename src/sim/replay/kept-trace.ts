import type { Trace } from "./read-trace.ts";
import type { TraceRequest } from "./trace.ts";

/** Read a trace into memory, for many runs of it. */
export async function keepTrace(trace: Trace, onShare?: (share: number) => void): Promise<KeptTrace> {
  const kept: TraceRequest[] = [];
  for await (const batch of trace.requests(onShare)) for (const request of batch) kept.push(request);
  return { trace, kept };
}

export interface KeptTrace {
  readonly trace: Trace;
  readonly kept: readonly TraceRequest[];
}

/** The same requests at another rate: `load` 2 lets them come twice as fast. */
export function atLoad(
  { trace, kept }: KeptTrace,
  load: number,
  turn: () => Promise<void> = () => Promise.resolve(),
): Trace {
  return {
    ...trace,
    async *requests() {
      for (let from = 0; from < kept.length; from += BATCH) {
        const batch = kept.slice(from, from + BATCH);
        yield load === 1 ? batch : batch.map((request) => ({ ...request, at: request.at / load }));
        await turn();
      }
    },
  };
}

/** Requests between two turns: some tens of milliseconds of work. */
const BATCH = 256;
