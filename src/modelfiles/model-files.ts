/** What a model's files say about its tokenizer and template: plain values, nothing compiled or interpreted. */
export interface ModelFiles {
  /** Where it was read from: a folder or a GGUF file. */
  readonly origin: string;
  /** `tokenizer.json`, parsed. */
  readonly tokenizerJson?: unknown;
  /** The vocabulary of a GGUF. */
  readonly gguf?: GgufTokenizer;
  /** The default chat template, in Jinja. */
  readonly chatTemplate?: string;
  /** Text of the special tokens that templates may name. */
  readonly bosToken?: string;
  readonly eosToken?: string;
  /** All special tokens by name (`bos_token`, `eos_token`, `unk_token`, `pad_token`, …), text only. */
  readonly specialTokens: Readonly<Record<string, string>>;
  /** Context limit in tokens. */
  readonly maxModelTokens?: number;
}

/** `tokenizer.ggml.*` of a GGUF file. */
export interface GgufTokenizer {
  /** `gpt2` (byte-level BPE), `llama` (SentencePiece), `bert`, … */
  readonly model: string;
  /** Pre-tokenizer, for example `smollm`. */
  readonly pre?: string;
  /** [vocabulary] the token texts in the file's own spelling. */
  readonly tokens: readonly string[];
  /** [vocabulary] 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte. */
  readonly tokenTypes?: readonly number[];
  /** Merges of a BPE vocabulary in their order, the two parts with a space between. */
  readonly merges?: readonly string[];
  readonly bosId?: number;
  readonly eosId?: number;
  readonly addBos?: boolean;
  readonly addSpacePrefix?: boolean;
}
