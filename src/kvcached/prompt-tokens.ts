import { CgnError } from "../core/errors.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";
import { MAX_PROMPT_TOKENS } from "../wire/kv-limits.ts";
import type { TokenIds } from "../wire/kv-server.ts";

/** Ids decoded before the event loop gets its turn: a few milliseconds. */
const SLICE_TOKENS = 32_768;

/**
 * The text of a prompt of token ids, in slices with the event loop's turn between them.
 * @throws CgnError REQUEST_TOO_LARGE, MODEL_NOT_FOUND when nobody serves the model, DEPENDENCY_UNREACHABLE while its
 * vocabulary is not known, REQUEST_INVALID for an id that it lacks
 */
export async function decodePrompt(
  workers: Iterable<{ readonly info: Pick<WorkerInfo, "models">; readonly vocabulary: Vocabulary | undefined }>,
  model: string,
  tokenIds: TokenIds,
): Promise<Uint8Array> {
  if (tokenIds.length > MAX_PROMPT_TOKENS) throw tooManyTokens(tokenIds.length);
  const all = [...workers];
  const serving = all.filter(({ info }) => info.models.includes(model));
  if (serving.length === 0) {
    const known = [...new Set(all.flatMap(({ info }) => info.models))];
    const message = `Cannot match token ids of "${model}": no worker serves it. Look at cgn kv sources`;
    throw new CgnError("MODEL_NOT_FOUND", message, { model, known });
  }
  const vocabulary = serving.find((worker) => worker.vocabulary !== undefined)?.vocabulary;
  if (vocabulary === undefined) {
    const message = `Cannot match token ids of "${model}": its vocabulary is not known. Look at cgn kv sources`;
    throw new CgnError("DEPENDENCY_UNREACHABLE", message, {});
  }
  const parts: Uint8Array[] = [];
  for (let from = 0; from < tokenIds.length; from += SLICE_TOKENS) {
    if (from > 0) await new Promise<void>((resolve) => setImmediate(resolve));
    const ids = tokenIds.slice(from, from + SLICE_TOKENS);
    const part = vocabulary.decode(ids);
    if (part === undefined) throw unknownToken(model, vocabulary, ids, from);
    parts.push(part);
  }
  return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
}

/** The error for a prompt that is too long to look up. */
export function tooManyTokens(count: number): CgnError {
  const message = `Cannot match a prompt of ${count} token ids: at most ${MAX_PROMPT_TOKENS} are taken. Send its beginning`;
  return new CgnError("REQUEST_TOO_LARGE", message, {}) as CgnError;
}

function unknownToken(model: string, vocabulary: Vocabulary, ids: TokenIds, from: number): CgnError {
  const at = Array.from(ids).findIndex((id) => vocabulary.decode([id]) === undefined);
  const what = `token id ${ids[at]} at ${from + at} is not in its vocabulary of ${vocabulary.size}`;
  const message = `Cannot match token ids of "${model}": ${what}. Send ids of the model's own tokenizer`;
  return new CgnError("REQUEST_INVALID", message, { param: "token_ids" }) as CgnError;
}
