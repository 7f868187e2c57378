const text = (description: string) => ({ type: "string", description });
const header = (description: string, type = "string") => ({ description, schema: { type } });

/** Optional: without it the only model is meant, where there is one. */
const model = text("Which model answers; see /v1/models");
const stream = { type: "boolean", description: "Answer as server-sent events" };
const request = (properties: object, required: readonly string[] = ["model"]) => ({
  type: "object",
  required,
  properties: { model, ...properties },
  additionalProperties: true,
});
const anyItems = { type: "array", items: { type: "object", additionalProperties: true } };
const maxTokens = { type: "integer", minimum: 0, description: "Longest answer" };

const error = (properties: object, required: readonly string[]) => ({
  type: "object",
  required,
  properties,
  additionalProperties: true,
});

/** `components` of the OpenAPI document: members of bodies that the router reads, and what it answers itself. */
export const COMPONENTS = {
  securitySchemes: {
    key: {
      type: "http",
      scheme: "bearer",
      description: "`Authorization: Bearer cgn-…`, or a token of the OIDC issuer",
    },
    anthropicKey: { type: "apiKey", in: "header", name: "x-api-key", description: "As clients of Anthropic send it" },
  },
  headers: {
    "x-request-id": header("The client's own, else one of the router's: what `cgn explain` takes"),
    "x-cgn-node": header("Which engine answered"),
    "x-cgn-predicted-cached-tokens": header("How much of the prompt was expected in its cache", "integer"),
    "x-cgn-cache-hit": header("Whether that is more than nothing"),
  },
  responses: {
    Refused: {
      description: "Refused, or failed",
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    },
    AnthropicRefused: {
      description: "Refused, or failed",
      content: { "application/json": { schema: { $ref: "#/components/schemas/AnthropicError" } } },
    },
  },
  schemas: {
    ModelRequest: request({}),
    ChatRequest: request({ messages: anyItems, stream, max_tokens: maxTokens, max_completion_tokens: maxTokens }, [
      "model",
      "messages",
    ]),
    CompletionRequest: request(
      {
        prompt: { anyOf: [{ type: "string" }, { type: "array" }], description: "A text, or token ids" },
        stream,
        max_tokens: maxTokens,
      },
      ["model", "prompt"],
    ),
    MessagesRequest: request(
      { messages: anyItems, system: { anyOf: [{ type: "string" }, anyItems] }, stream, max_tokens: maxTokens },
      ["model", "messages"],
    ),
    ResponsesRequest: request(
      { input: { anyOf: [{ type: "string" }, anyItems] }, instructions: text("System prompt"), stream },
      ["model", "input"],
    ),
    InputRequest: request({ input: { description: "A text, or several" } }),
    FormRequest: request({ file: { type: "string", contentMediaType: "application/octet-stream" } }),
    Model: {
      type: "object",
      required: ["id", "object", "created", "owned_by"],
      properties: {
        id: { type: "string" },
        object: { const: "model" },
        created: { type: "integer" },
        owned_by: { const: "cgn" },
        max_model_len: { type: "integer", description: "Context limit in tokens, where it is known" },
      },
      additionalProperties: true,
    },
    ModelList: {
      type: "object",
      required: ["object", "data"],
      properties: { object: { const: "list" }, data: { type: "array", items: { $ref: "#/components/schemas/Model" } } },
      additionalProperties: true,
    },
    Error: error(
      {
        error: error(
          {
            message: text("What is wrong, and what would be right"),
            type: { type: "string" },
            code: { type: ["string", "integer", "null"], description: "Of docs/errors.md, or the engine's own" },
            param: { type: ["string", "null"] },
          },
          ["message"],
        ),
      },
      ["error"],
    ),
    AnthropicError: error(
      {
        type: { const: "error" },
        error: error({ type: { type: "string" }, message: { type: "string" } }, ["type", "message"]),
      },
      ["type", "error"],
    ),
  },
};
