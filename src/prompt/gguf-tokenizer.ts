/** What of a GGUF's tokenizer makes token ids from text. */
export interface GgufMerges {
  /** `gpt2` for byte-level BPE; others have no merges. */
  readonly model: string;
  /** Pre-tokenizer, for example `smollm`. */
  readonly pre: string | undefined;
  readonly tokens: readonly string[];
  /** [tokens] 3 control, 4 user-defined; see `GgufTokenizer`. */
  readonly types: readonly number[] | undefined;
  /** Pairs in their order, with a space between. */
  readonly merges: readonly string[] | undefined;
}

/** Types of tokens that are taken out of the text before it is split. */
const CONTROL = 3;
const USER_DEFINED = 4;

const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const llama3 = (digits: string): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

/** Patterns by `tokenizer.ggml.pre`, as llama.cpp 0.6 (`src/llama-vocab.cpp`) has them; one after the other. */
const PATTERNS: Readonly<Record<string, readonly string[]>> = {
  "gpt-2": [GPT2],
  mpt: [GPT2],
  olmo: [GPT2],
  smollm: ["\\p{N}", GPT2],
  starcoder: ["\\p{N}", GPT2],
  refact: ["\\p{N}", GPT2],
  "command-r": ["\\p{N}", GPT2],
  "llama-bpe": [llama3("\\p{N}{1,3}")],
  qwen2: [llama3("\\p{N}")],
};

/** Whole words of the vocabulary are taken before any merge. */
const WHOLE_WORDS = new Set(["llama-bpe"]);

/**
 * The `tokenizer.json` that says what a GGUF's tokenizer does.
 * @returns why there is none, for vocabularies without merges and pre-tokenizers that are not known here
 */
export function tokenizerJsonFromGguf(gguf: GgufMerges): Readonly<Record<string, unknown>> | string {
  const { model, pre = "", tokens, types, merges } = gguf;
  if (model !== "gpt2" || merges === undefined) return `the GGUF's vocabulary is of type ${model}, without merges`;
  const patterns = PATTERNS[pre];
  if (patterns === undefined) return `the GGUF's pre-tokenizer ${JSON.stringify(pre)} is not known`;
  const special = (id: number) => types?.[id] === CONTROL || types?.[id] === USER_DEFINED;
  const splits = patterns.map((pattern) => ({
    ...{ type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
  }));
  return {
    added_tokens: tokens.flatMap((content, id) =>
      special(id)
        ? [
            {
              id,
              content,
              special: types?.[id] === CONTROL,
              single_word: false,
              lstrip: false,
              rstrip: false,
              normalized: false,
            },
          ]
        : [],
    ),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [...splits, { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false }],
    },
    model: {
      ...{ type: "BPE", dropout: null, unk_token: null, fuse_unk: false, byte_fallback: false },
      ignore_merges: WHOLE_WORDS.has(pre),
      vocab: Object.fromEntries(tokens.map((text, id) => [text, id])),
      merges: merges.map((pair) => pair.split(" ")),
    },
    post_processor: null,
    decoder: { type: "ByteLevel" },
  };
}
