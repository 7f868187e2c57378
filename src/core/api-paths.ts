/**
 * Paths below which an API is found, by engine or version; the first is the one that clients are told of. An engine that lacks the path
 * that a client used is asked by another one of the same row: their bodies are the same.
 */
const ROWS: readonly (readonly string[])[] = [
  ["/v1/chat/completions"],
  ["/v1/completions"],
  ["/v1/embeddings"],
  ["/v1/responses"],
  ["/v1/messages"],
  ["/v1/messages/count_tokens"],
  ["/v1/rerank", "/rerank", "/v2/rerank"],
  ["/v1/score", "/score"],
  ["/v1/classify", "/classify"],
  ["/pooling"],
  ["/tokenize", "/v1/tokenize"],
  ["/detokenize", "/v1/detokenize"],
  ["/v1/audio/transcriptions"],
  ["/v1/audio/translations"],
  ["/v1/audio/speech"],
  ["/v1/images/generations"],
  ["/v1/images/edits"],
  ["/v1/moderations"],
];

/** All paths of APIs that are known by name. */
export const API_PATHS: readonly string[] = ROWS.flat();

const ROW_OF: ReadonlyMap<string, readonly string[]> = new Map(
  ROWS.flatMap((row) => row.map((path) => [path, row] as const)),
);

/** The paths of the same API, the given one first; only that one where the path is not known. */
export function samePaths(path: string): readonly string[] {
  const row = ROW_OF.get(path);
  if (row === undefined || row.length === 1) return [path];
  return [path, ...row.filter((other) => other !== path)];
}

/** All known paths but these: what an engine lacks, said by what it has. */
export function allPathsBut(has: readonly string[]): readonly string[] {
  return API_PATHS.filter((path) => !has.includes(path));
}
