import type { ModelFiles } from "../modelfiles/model-files.ts";
import { type CanonicalEncoder, createCanonicalEncoder } from "../prompt/canonical-encoder.ts";
import { tokenizerJsonFromGguf } from "../prompt/gguf-tokenizer.ts";
import { vocabularyFromGguf } from "../prompt/gguf-vocabulary.ts";
import { vocabularyFromTokenizer } from "../prompt/tokenizer-json.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";

/** What a canonicity check of a model needs, or why there is none. */
export type CheckingTools =
  | { readonly encoder: CanonicalEncoder; readonly vocabulary: Vocabulary }
  | { readonly reason: string };

/** Text that every tokenizer spells: one that does not give it back is not understood by our library. */
const TRIAL = "The quick brown fox, 12 times.\n";

/** Make the tokenizer of a model's files, and try it. Takes some 0.2 to 1 s of computing: not for an event loop with traffic. */
export function checkingTools(files: ModelFiles): CheckingTools {
  try {
    const json = files.tokenizerJson ?? fromGguf(files);
    if (typeof json === "string") return { reason: json };
    const encoder = createCanonicalEncoder(json);
    const vocabulary = vocabularyOf(files);
    const spelled = vocabulary.decode(encoder.encode(TRIAL));
    if (spelled === undefined || new TextDecoder().decode(spelled) !== TRIAL) {
      return { reason: "its tokenizer does not give back a plain text" };
    }
    return { encoder, vocabulary };
  } catch (error) {
    return { reason: `its tokenizer is not understood: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function fromGguf({ gguf }: ModelFiles): Readonly<Record<string, unknown>> | string {
  if (gguf === undefined) return "there is no tokenizer.json and no GGUF";
  const { model, pre, tokens, tokenTypes: types, merges } = gguf;
  return tokenizerJsonFromGguf({ model, pre, tokens, types, merges });
}

function vocabularyOf({ tokenizerJson, gguf }: ModelFiles): Vocabulary {
  if (tokenizerJson !== undefined) return vocabularyFromTokenizer(tokenizerJson);
  if (gguf === undefined) throw new TypeError("no vocabulary");
  return vocabularyFromGguf({ model: gguf.model, tokens: gguf.tokens, types: gguf.tokenTypes });
}
