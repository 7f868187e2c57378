import { decodeIds, encodeText } from "../tokens.ts";
import { type Finding, missing } from "./pydantic.ts";
import { chatPrompt } from "./read-request.ts";
import type { Answer, Route } from "./routes.ts";

/** How an engine words what these routes refuse. */
export interface TokenizeWording {
  malformed(findings: readonly Finding[], path: string): Answer;
  broken(text: string, path: string): Answer;
  /** `/tokenize` without a prompt or with one of another type. */
  noPrompt(body: Fields): readonly Finding[];
  /** `/detokenize` with something else than a list. */
  noList(tokens: unknown): readonly Finding[];
  negative(index: number, token: unknown): Answer;
}

type Fields = Readonly<Record<string, unknown>>;

/** `/tokenize`: a prompt or a chat. `tokenTexts`: the answer has the tokens' texts too, or null (vLLM). */
export function tokenizeRoute(wording: TokenizeWording, tokenTexts: boolean): Route {
  return async (exchange, engine) => {
    const say = ({ status, body }: Answer): void => exchange.sendJson(status, body);
    const body = await fieldsOf(exchange.text());
    if (body === undefined) return say(wording.broken(await exchange.text(), exchange.path));
    const { prompt = body["text"], messages } = body;
    if (typeof prompt !== "string" && messages === undefined) {
      return say(wording.malformed(wording.noPrompt(body), exchange.path));
    }
    const ids = typeof prompt === "string" ? encodeText(prompt) : chatPrompt(engine.options.kind, body);
    if (typeof ids === "string") {
      return say(
        wording.malformed(
          [{ type: "value_error", loc: ["body", "messages"], msg: ids, input: messages }],
          exchange.path,
        ),
      );
    }
    const texts = body["return_token_strs"] === true ? ids.map((id) => decodeIds([id])) : null;
    exchange.sendJson(200, {
      count: ids.length,
      max_model_len: engine.options.maxModelTokens,
      tokens: ids,
      ...(tokenTexts ? { token_strs: texts } : {}),
    });
  };
}

/** `/detokenize` */
export function detokenizeRoute(key: "prompt" | "text", wording: TokenizeWording): Route {
  return async (exchange) => {
    const say = ({ status, body }: Answer): void => exchange.sendJson(status, body);
    const body = await fieldsOf(exchange.text());
    if (body === undefined) return say(wording.broken(await exchange.text(), exchange.path));
    const { tokens } = body;
    if (tokens === undefined) return say(wording.malformed([missing("tokens", body)], exchange.path));
    if (!Array.isArray(tokens)) return say(wording.malformed(wording.noList(tokens), exchange.path));
    const wrong = tokens.findIndex((id) => typeof id !== "number" || id < 0);
    if (wrong >= 0) return say(wording.negative(wrong, tokens[wrong]));
    exchange.sendJson(200, { [key]: decodeIds(tokens as number[]) });
  };
}

async function fieldsOf(text: Promise<string>): Promise<Fields | undefined> {
  try {
    const value: unknown = JSON.parse(await text);
    return typeof value === "object" && value !== null ? (value as Fields) : {};
  } catch {
    return undefined;
  }
}
