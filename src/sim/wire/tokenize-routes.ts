import { decodeIds, encodeText } from "../tokens.ts";
import { type Finding, missing } from "./pydantic.ts";
import { chatPrompt } from "./read-request.ts";
import type { Answer, Route } from "./routes.ts";

/** How an engine words what these routes refuse. */
interface Wording {
  malformed(findings: readonly Finding[], path: string): Answer;
  broken(text: string, path: string): Answer;
}

type Fields = Readonly<Record<string, unknown>>;

/** `/tokenize`: a prompt or a chat. `tokenTexts`: the answer has the tokens' texts too, or null (vLLM). */
export function tokenizeRoute(wording: Wording, tokenTexts: boolean): Route {
  return async (exchange, engine) => {
    const say = ({ status, body }: Answer): void => exchange.sendJson(status, body);
    const body = await fieldsOf(exchange.text());
    if (body === undefined) return say(wording.broken(await exchange.text(), exchange.path));
    const { prompt = body["text"], messages } = body;
    if (typeof prompt !== "string" && messages === undefined) {
      const type: Finding = {
        type: "string_type",
        loc: ["body", "prompt"],
        msg: "Input should be a valid string",
        input: prompt,
      };
      const first = prompt === undefined ? missing("prompt", body) : type;
      return say(wording.malformed([first, missing("messages", body)], exchange.path));
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
export function detokenizeRoute(key: "prompt" | "text", wording: Wording): Route {
  return async (exchange) => {
    const say = ({ status, body }: Answer): void => exchange.sendJson(status, body);
    const body = await fieldsOf(exchange.text());
    if (body === undefined) return say(wording.broken(await exchange.text(), exchange.path));
    const { tokens } = body;
    if (tokens === undefined) return say(wording.malformed([missing("tokens", body)], exchange.path));
    const loc = ["body", "tokens"];
    if (!Array.isArray(tokens)) {
      const finding: Finding = { type: "list_type", loc, msg: "Input should be a valid list", input: tokens };
      return say(wording.malformed([finding], exchange.path));
    }
    const wrong = tokens.findIndex((id) => typeof id !== "number" || id < 0);
    if (wrong >= 0) {
      const msg = "Input should be greater than or equal to 0";
      const finding = { type: "greater_than_equal", loc: [...loc, wrong], msg, input: tokens[wrong], ctx: { ge: 0 } };
      return say(wording.malformed([finding], exchange.path));
    }
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
