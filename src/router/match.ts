import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { MatchQuery, PrefixKnowledge, WorkerMatch } from "../core/prefix-knowledge.ts";

/** A kvcached on another host that takes longer is not worth waiting for: the request is routed by load. */
const DEADLINE_MS = 100;

const NOTHING: readonly WorkerMatch[] = [];

/** Ask who holds how much of a prompt. A promise only where the knowledge is elsewhere; never rejects. */
export function match(
  knowledge: PrefixKnowledge,
  query: MatchQuery | undefined,
  clock: Clock,
  log: Log,
): readonly WorkerMatch[] | Promise<readonly WorkerMatch[]> {
  if (query === undefined) return NOTHING;
  const answer = knowledge.match(query);
  if (!(answer instanceof Promise)) return answer;
  return new Promise((resolve) => {
    const cancel = clock.after(DEADLINE_MS, () => {
      log.once("match/late").warn("kvcached answers too late; requests are routed by load meanwhile", { DEADLINE_MS });
      resolve(NOTHING);
    });
    answer.then(
      (matches) => {
        cancel();
        resolve(matches);
      },
      (e: unknown) => {
        cancel();
        log.once("match/failed").warn("kvcached failed; requests are routed by load meanwhile", { said: String(e) });
        resolve(NOTHING);
      },
    );
  });
}
