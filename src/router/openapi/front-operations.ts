/** One operation of the front port, told apart from others by its path. */
export interface FrontOperation {
  readonly path: string;
  readonly method: "get" | "post";
  readonly id: string;
  readonly summary: string;
  /** Whose API it is: in whose form errors are. */
  readonly form: "openai" | "anthropic";
  /** Members of the body that the router itself reads; the rest goes to the engine as it came. */
  readonly body?: "chat" | "completion" | "messages" | "responses" | "input" | "form" | "any";
  /** May the answer be a stream of server-sent events? */
  readonly streams?: boolean;
  /** Parameters in the path, with what they are. */
  readonly parameters?: Readonly<Record<string, string>>;
}

const post = (
  path: string,
  id: string,
  summary: string,
  body: FrontOperation["body"],
  more: Partial<FrontOperation> = {},
): FrontOperation => ({
  path,
  method: "post",
  id,
  summary,
  form: "openai",
  ...(body === undefined ? {} : { body }),
  ...more,
});

const several = (
  paths: readonly string[],
  id: string,
  summary: string,
  body: FrontOperation["body"] = "any",
): FrontOperation[] => paths.map((path, n) => post(path, n === 0 ? id : `${id}${n + 1}`, summary, body));

/** Every operation of the front port that is known by name. A test compares them with the router's own tables, both ways. */
export const FRONT_OPERATIONS: readonly FrontOperation[] = [
  { path: "/v1/models", method: "get", id: "listModels", summary: "All models, loaded or not", form: "openai" },
  {
    path: "/v1/models/{model}",
    method: "get",
    id: "getModel",
    summary: "One model",
    form: "openai",
    parameters: { model: "Its name; slashes may stand as they are" },
  },
  {
    path: "/health",
    method: "get",
    id: "health",
    summary: "200 while some model is served, else 503, as engines answer it; needs no key",
    form: "openai",
  },
  post("/v1/chat/completions", "createChatCompletion", "Answer a chat", "chat", { streams: true }),
  post("/v1/completions", "createCompletion", "Complete a text", "completion", { streams: true }),
  post("/v1/responses", "createResponse", "Answer in OpenAI's Responses form; nothing is stored", "responses", {
    streams: true,
  }),
  post("/v1/messages", "createMessage", "Answer in Anthropic's form", "messages", { form: "anthropic", streams: true }),
  post("/v1/messages/count_tokens", "countTokens", "Count the tokens of a prompt in Anthropic's form", "messages", {
    form: "anthropic",
  }),
  post("/v1/embeddings", "createEmbedding", "Embed texts", "input"),
  ...several(["/v1/rerank", "/rerank", "/v2/rerank"], "rerank", "Order documents by how well they answer a query"),
  ...several(["/v1/score", "/score"], "score", "Score pairs of texts"),
  ...several(["/v1/classify", "/classify"], "classify", "Classify texts"),
  post("/pooling", "pool", "Hidden states of texts", "input"),
  ...several(["/tokenize", "/v1/tokenize"], "tokenize", "Token ids of a text or chat"),
  ...several(["/detokenize", "/v1/detokenize"], "detokenize", "The text of token ids"),
  post("/v1/audio/transcriptions", "transcribe", "Text of speech", "form", { streams: true }),
  post("/v1/audio/translations", "translate", "English text of speech", "form", { streams: true }),
  post("/v1/audio/speech", "speak", "Speech of a text", "input"),
  post("/v1/images/generations", "createImage", "Pictures of a text", "any"),
  post("/v1/images/edits", "editImage", "Pictures changed by a text", "form"),
  post("/v1/moderations", "moderate", "Judge texts", "input"),
];
