import Anthropic, {
  APIConnectionTimeoutError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { type Case, check, errorOf, forTargets, QUESTION, scripted, told, WEATHER } from "./cases.ts";
import type { ClientFleet, Target } from "./fleet.ts";
import { leftAtEngine } from "./openai-node.ts";

const CLIENT = "anthropic (Node)";

/** Anthropic's SDK for Node. */
export function anthropicNodeCases(fleet: ClientFleet): Case[] {
  const client = new Anthropic({ baseURL: fleet.url, apiKey: "unused", maxRetries: 0 });
  const real = fleet.targets.filter((t) => t.real);
  return [
    ...forTargets(CLIENT, fleet.targets, messages(client)),
    ...forTargets(
      CLIENT,
      fleet.targets.filter((t) => !t.chatOnly),
      counts(client),
    ),
    ...forTargets(CLIENT, real, results(client)),
    ...scripted(CLIENT, fleet, { ...tools(client, fleet), ...errors(client, fleet), ...converted(client, fleet) }),
  ];
}

type TargetCases = Readonly<Record<string, (target: Target) => Promise<void>>>;
type Cases = Readonly<Record<string, () => Promise<void>>>;

function messages(client: Anthropic): TargetCases {
  const body = (model: string) => ({ model, messages: QUESTION, max_tokens: 8, system: "Be brief." });
  return {
    async messages({ model }) {
      const answer = await client.messages.create(body(model));
      check(answer.type === "message" && answer.role === "assistant", "it is a message", answer);
      check(
        answer.content.some((b) => b.type === "text" && b.text.length > 0),
        "it has text",
        answer.content,
      );
      check(answer.stop_reason !== null && answer.usage.output_tokens > 0, "it has an end and usage", answer);
    },
    async "messages stream"({ model }) {
      let text = "";
      const stream = client.messages.stream(body(model)).on("text", (piece) => {
        text += piece;
      });
      const answer = await stream.finalMessage();
      const whole = answer.content.map((b) => (b.type === "text" ? b.text : "")).join("");
      check(text.length > 0 && text === whole, "it has text", { text, whole });
      check(answer.stop_reason !== null && answer.usage.output_tokens > 0, "it has an end and usage", answer);
    },
    async "list and retrieve models"({ model }) {
      const names: string[] = [];
      for await (const one of client.models.list()) names.push(one.id);
      check(names.includes(model), "the list has it", names);
      const one = await client.models.retrieve(model);
      check(one.id === model && one.type === "model", "it is found by its name", one);
    },
  };
}

function counts(client: Anthropic): TargetCases {
  return {
    async "count tokens"({ model }) {
      const { input_tokens } = await client.messages.countTokens({ model, messages: QUESTION });
      check(input_tokens > 5, "it counts", input_tokens);
    },
  };
}

const TOOL = { name: WEATHER.name, description: WEATHER.description, input_schema: WEATHER.schema };

function results(client: Anthropic): TargetCases {
  return {
    async "a chat with a call and its result"({ model }) {
      const call = { type: "tool_use" as const, id: "t1", name: WEATHER.name, input: { city: "Rome" } };
      const result = { type: "tool_result" as const, tool_use_id: "t1", content: "sunny" };
      const messages = [
        { role: "user" as const, content: "Weather in Rome?" },
        { role: "assistant" as const, content: [call] },
        { role: "user" as const, content: [result] },
      ];
      const answer = await client.messages.create({ model, max_tokens: 4, messages, tools: [TOOL] });
      check(answer.stop_reason !== null, "it is answered", answer);
    },
  };
}

function tools(client: Anthropic, { scripted: model }: ClientFleet): Cases {
  const body = { model, max_tokens: 60, messages: told("tool"), tools: [TOOL], tool_choice: { type: "any" as const } };
  const isCall = ({ content, stop_reason }: Anthropic.Message): void => {
    const call = content.find((b) => b.type === "tool_use");
    check(call?.name === WEATHER.name && JSON.stringify(call.input) === '{"city":"Paris"}', "it calls", content);
    check(stop_reason === "tool_use", "it ends for the call", stop_reason);
  };
  return {
    "messages tools": async () => isCall(await client.messages.create(body)),
    "messages tools stream": async () => isCall(await client.messages.stream(body).finalMessage()),
  };
}

function errors(client: Anthropic, { scripted: model, engine }: ClientFleet): Cases {
  const ask = (script: string) => client.messages.create({ model, max_tokens: 8, messages: told(script) });
  const is = async (
    run: () => Promise<unknown>,
    type: abstract new (...args: never[]) => Error,
    status?: number,
    word?: string,
  ) => {
    const error = await errorOf(run);
    check(error instanceof type, `it is ${type.name}`, { name: error.constructor.name, message: error.message });
    check(status === undefined || error.status === status, `its status is ${status}`, error.status);
    const said = (error as APIError).type;
    check(word === undefined || said === word, `its type is ${word}`, { said, message: error.message });
    return error as APIError;
  };
  return {
    "400 of the engine": async () => void (await is(() => ask("400"), BadRequestError, 400, "invalid_request_error")),
    "401 of the engine": async () =>
      void (await is(() => ask("401"), AuthenticationError, 401, "authentication_error")),
    "404 for a model that is not there": async () => {
      const run = () => client.messages.create({ model: "nope", max_tokens: 8, messages: QUESTION });
      await is(run, NotFoundError, 404, "not_found_error");
    },
    "429 of the engine": async () => {
      const error = await is(() => ask("429"), RateLimitError, 429, "rate_limit_error");
      check(error.headers?.get("retry-after") === "7", "Retry-After is passed on");
    },
    "500 of the engine": async () => void (await is(() => ask("500"), InternalServerError, 500, "api_error")),
    "503 of the engine": async () => void (await is(() => ask("503"), InternalServerError, 503, "overloaded_error")),
    "501 where tokens cannot be counted": async () => {
      const run = () => client.messages.countTokens({ model, messages: QUESTION });
      await is(run, InternalServerError, 501, "api_error");
    },
    "400 for a request that cannot be read": async () => {
      const run = () => client.messages.create({ model, max_tokens: 0, messages: QUESTION });
      await is(run, BadRequestError, 400, "invalid_request_error");
    },
    "a stream that breaks": async () => {
      const run = () => client.messages.stream({ model, max_tokens: 8, messages: told("broken") }).finalMessage();
      await is(run, APIError, undefined, "api_error");
    },
    "an error in a stream": async () => {
      const run = () => client.messages.stream({ model, max_tokens: 8, messages: told("error-event") }).finalMessage();
      await is(run, APIError, undefined, "api_error");
    },
    "a timeout": async () => {
      const impatient = client.withOptions({ timeout: 300 });
      const run = () => impatient.messages.create({ model, max_tokens: 8, messages: told("hang") });
      await is(run, APIConnectionTimeoutError);
    },
    "a stream that is left": async () => {
      const before = engine.left();
      const stream = client.messages.stream({ model, max_tokens: 8, messages: told("endless") });
      let seen = 0;
      for await (const _ of stream) if (++seen === 6) break;
      await leftAtEngine(engine, before);
    },
  };
}

/** The SDK knows them no more; engines do. */
const MORE: object = { temperature: 0.5, top_k: 4 };

function converted(client: Anthropic, { scripted: model }: ClientFleet): Cases {
  return {
    "what an engine with chat completions only gets": async () => {
      const data = "iVBORw0KGgo=";
      const image = {
        type: "image" as const,
        source: { type: "base64" as const, media_type: "image/png" as const, data },
      };
      const answer = await client.messages.create({
        model,
        max_tokens: 8,
        system: [{ type: "text", text: "S", cache_control: { type: "ephemeral" } }],
        stop_sequences: ["#"],
        ...MORE,
        messages: [{ role: "user", content: [{ type: "text", text: "[[echo]]" }, image] }],
      });
      const block = answer.content[0];
      check(block?.type === "text", "it answers", answer);
      const parts = [
        { type: "text", text: "[[echo]]" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
      ];
      const { messages: got, ...rest } = JSON.parse(block.text);
      const messages = [
        { role: "system", content: "S" },
        { role: "user", content: parts },
      ];
      check(JSON.stringify(got) === JSON.stringify(messages), "its messages", got);
      check(rest.max_tokens === 8 && rest.top_k === 4 && rest.stop[0] === "#", "its limits", rest);
    },
  };
}
