import { CgnError } from "../core/errors.ts";
import { fromByteLevel, fromSentencePiece } from "./byte-level.ts";
import { type Vocabulary, vocabularyOf } from "./vocabulary.ts";

/** The token arrays of a GGUF file (`tokenizer.ggml.*`). */
export interface GgufTokens {
  /** `gpt2` (byte-level BPE) or `llama` (SentencePiece). */
  readonly model: string;
  readonly tokens: readonly string[];
  /** 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte (llama.cpp's `llama_token_type`). */
  readonly types?: readonly number[] | undefined;
}

const CONTROL = 3;
const USER_DEFINED = 4;

/**
 * The vocabulary of a GGUF file. Control and user-defined tokens are taken literally.
 * @throws CgnError NOT_SUPPORTED for another tokenizer model than `gpt2` and `llama`
 */
export function vocabularyFromGguf({ model, tokens, types }: GgufTokens): Vocabulary {
  const spell = model === "gpt2" ? fromByteLevel : model === "llama" ? fromSentencePiece : undefined;
  if (spell === undefined) {
    const message = `Cannot read the GGUF vocabulary: tokenizer model "${model}" is not supported. Supported are gpt2 and llama`;
    throw new CgnError("NOT_SUPPORTED", message, { model });
  }
  const encoder = new TextEncoder();
  return vocabularyOf(
    tokens.map((text, id) => {
      const type = types?.[id];
      return type === CONTROL || type === USER_DEFINED ? encoder.encode(text) : spell(text);
    }),
  );
}
