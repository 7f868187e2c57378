import OpenAI, {
  APIConnectionTimeoutError,
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
  toFile,
} from "openai";
import { type Case, check, errorOf, forTargets, QUESTION, scripted, told, WEATHER } from "./cases.ts";
import type { ClientFleet, Target } from "./fleet.ts";

const CLIENT = "openai (Node)";
const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** OpenAI's SDK for Node. */
export function openaiNodeCases(fleet: ClientFleet): Case[] {
  const client = new OpenAI({ baseURL: `${fleet.url}/v1`, apiKey: "unused", maxRetries: 0 });
  const real = fleet.targets.filter((t) => t.real);
  return [
    ...forTargets(CLIENT, fleet.targets, { ...chats(client), ...responses(client) }),
    ...forTargets(CLIENT, real, made(client)),
    ...scripted(CLIENT, fleet, { ...tools(client, fleet), ...errors(client, fleet), ...passed(client, fleet) }),
    ...(fleet.embedder === undefined ? [] : [embeddings(client, fleet.embedder)]),
  ];
}

type TargetCases = Readonly<Record<string, (target: Target) => Promise<void>>>;
type Cases = Readonly<Record<string, () => Promise<void>>>;

function chats(client: OpenAI): TargetCases {
  const body = (model: string) => ({ model, messages: QUESTION, max_tokens: 8 });
  return {
    async chat({ model }) {
      const answer = await client.chat.completions.create(body(model));
      check((answer.choices[0]?.message.content ?? "").length > 0, "it has text", answer);
      check((answer.usage?.prompt_tokens ?? 0) > 0, "it has usage", answer.usage);
    },
    async stream({ model }) {
      let text = "";
      let usages = 0;
      let finish: string | null = null;
      for await (const chunk of await client.chat.completions.create({ ...body(model), stream: true })) {
        text += chunk.choices[0]?.delta.content ?? "";
        finish ??= chunk.choices[0]?.finish_reason ?? null;
        if (chunk.choices.length === 0) usages++;
      }
      check(text.length > 0 && finish !== null, "it has text and a finish", { text, finish });
      check(usages === 0, "usage that was not asked for is not sent");
    },
    async "stream with usage"({ model }) {
      const stream = client.chat.completions.stream({ ...body(model), stream_options: { include_usage: true } });
      const answer = await stream.finalChatCompletion();
      check((answer.usage?.completion_tokens ?? 0) > 0, "it has usage", answer);
    },
    async "list and retrieve models"({ model }) {
      const names: string[] = [];
      for await (const one of client.models.list()) names.push(one.id);
      check(names.includes(model), "the list has it", names);
      check((await client.models.retrieve(model)).id === model, "it is found by its name");
    },
  };
}

function responses(client: OpenAI): TargetCases {
  const body = (model: string) => ({ model, input: "Name a colour.", max_output_tokens: 8 });
  return {
    async responses({ model }) {
      const answer = await client.responses.create(body(model));
      check(answer.output_text.length > 0, "it has text", answer);
      check((answer.usage?.input_tokens ?? 0) > 0, "it has usage", answer.usage);
    },
    async "responses stream"({ model }) {
      let text = "";
      let ended: string | undefined;
      for await (const event of await client.responses.create({ ...body(model), stream: true })) {
        if (event.type === "response.output_text.delta") text += event.delta;
        if (event.type === "response.completed" || event.type === "response.incomplete") ended = event.type;
      }
      check(text.length > 0 && ended !== undefined, "it has text and an end", { text, ended });
    },
  };
}

const TOOL = {
  type: "function" as const,
  function: { name: WEATHER.name, description: WEATHER.description, parameters: WEATHER.schema },
};

/** What only a real engine makes: it keeps to grammars. */
function made(client: OpenAI): TargetCases {
  const body = (model: string) => ({ model, messages: QUESTION, max_tokens: 60, temperature: 0 });
  return {
    async "a chat with a call and its result"({ model }) {
      const call = {
        id: "c1",
        type: "function" as const,
        function: { name: WEATHER.name, arguments: '{"city":"Rome"}' },
      };
      const messages = [
        { role: "user" as const, content: "Weather in Rome?" },
        { role: "assistant" as const, content: null, tool_calls: [call] },
        { role: "tool" as const, tool_call_id: "c1", content: "sunny" },
      ];
      const answer = await client.chat.completions.create({ ...body(model), max_tokens: 4, messages, tools: [TOOL] });
      check(answer.choices[0]?.finish_reason !== null, "it is answered", answer.choices);
    },
    async "structured output"({ model }) {
      const json_schema = { name: "place", schema: WEATHER.schema, strict: true };
      const answer = await client.chat.completions.create({
        ...body(model),
        response_format: { type: "json_schema", json_schema },
      });
      check("city" in JSON.parse(answer.choices[0]?.message.content ?? ""), "it keeps to the schema");
    },
    async "n = 2 and log probabilities"({ model }) {
      const { choices } = await client.chat.completions.create({
        ...body(model),
        max_tokens: 4,
        n: 2,
        logprobs: true,
        top_logprobs: 2,
      });
      check(choices.length === 2 && choices[0]?.index === 0 && choices[1]?.index === 1, "two choices", choices);
      for (const { logprobs } of choices) {
        check(
          logprobs?.content?.every((t) => t.top_logprobs.length === 2),
          "both have log probabilities",
          logprobs,
        );
      }
    },
    async completions({ model }) {
      const answer = await client.completions.create({ model, prompt: "One, two,", max_tokens: 4 });
      check((answer.choices[0]?.text ?? "").length > 0, "it has text", answer);
    },
  };
}

function tools(client: OpenAI, { scripted: model }: ClientFleet): Cases {
  const asked = { model, messages: told("tool"), tools: [TOOL] };
  const fn = { type: "function" as const, name: WEATHER.name, parameters: WEATHER.schema, strict: true };
  return {
    async tools() {
      const { choices } = await client.chat.completions.create(asked);
      isCall(choices[0]?.message.tool_calls?.[0]);
      check(choices[0]?.finish_reason === "tool_calls", "it ends for the call", choices);
    },
    async "tools stream"() {
      const { choices } = await client.chat.completions.stream(asked).finalChatCompletion();
      isCall(choices[0]?.message.tool_calls?.[0]);
    },
    async "responses tools"() {
      const input = [{ role: "user" as const, content: "[[tool]]" }];
      const answer = await client.responses.create({ model, input, tools: [fn] });
      const call = answer.output.find((item) => item.type === "function_call");
      check(call !== undefined && JSON.parse(call.arguments).city === "Paris", "it calls the tool", answer.output);
      const result = { type: "function_call_output" as const, call_id: call.call_id, output: "sunny" };
      const after = { role: "user" as const, content: "[[echo]]" };
      const next = await client.responses.create({
        model,
        input: [{ role: "user", content: "?" }, call, result, after],
      });
      const roles = JSON.parse(next.output_text).messages.map((m: { role: string }) => m.role);
      check(roles.join() === "user,assistant,tool,user", "call and result reach the engine", roles);
    },
    async "responses tools stream"() {
      const stream = client.responses.stream({ model, input: "[[tool]]", tools: [fn] });
      let pieces = "";
      for await (const event of stream)
        if (event.type === "response.function_call_arguments.delta") pieces += event.delta;
      const call = (await stream.finalResponse()).output.find((item) => item.type === "function_call");
      check(call !== undefined && call.arguments === pieces && JSON.parse(pieces).city === "Paris", "it calls", call);
    },
  };
}

function isCall(call: OpenAI.ChatCompletionMessageToolCall | undefined): void {
  check(call?.type === "function" && call.function.name === WEATHER.name && call.id !== "", "it calls the tool", call);
  check(JSON.parse(call.function.arguments).city === "Paris", "its arguments are whole", call);
}

function errors(client: OpenAI, { scripted: model, engine }: ClientFleet): Cases {
  const ask = (script: string, more: object = {}) =>
    client.chat.completions.create({ model, messages: told(script), ...more });
  const streamed = async (script: string): Promise<string> => {
    let text = "";
    const stream = await client.chat.completions.create({ model, messages: told(script), stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    return text;
  };
  const is = async (run: () => Promise<unknown>, type: abstract new (...args: never[]) => Error, status?: number) => {
    const error = await errorOf(run);
    check(error instanceof type, `it is ${type.name}`, { name: error.constructor.name, message: error.message });
    check(status === undefined || error.status === status, `its status is ${status}`, error.status);
    return error;
  };
  return {
    "400 of the engine": async () => void (await is(() => ask("400"), BadRequestError, 400)),
    "401 of the engine": async () => void (await is(() => ask("401"), AuthenticationError, 401)),
    "404 for a model that is not there": async () =>
      void (await is(() => client.chat.completions.create({ model: "nope", messages: QUESTION }), NotFoundError, 404)),
    "429 of the engine": async () => {
      const error = (await is(() => ask("429"), RateLimitError, 429)) as RateLimitError;
      check(error.headers?.get("retry-after") === "7", "Retry-After is passed on");
    },
    "500 of the engine": async () => void (await is(() => ask("500"), InternalServerError, 500)),
    "503 of the engine": async () => void (await is(() => ask("503"), InternalServerError, 503)),
    "501 for an endpoint that is not there": async () => {
      const patient = client.withOptions({ maxRetries: 2 });
      const error = await is(() => patient.embeddings.create({ model, input: "x" }), InternalServerError, 501);
      check(error.message.includes("/v1/embeddings"), "it says which", error.message);
    },
    "400 for a body without messages": async () =>
      void (await is(() => client.post("/chat/completions", { body: { messages: [] } }), BadRequestError, 400)),
    "a stream that breaks": async () => void (await is(() => streamed("broken"), APIError)),
    "an error in a stream": async () => void (await is(() => streamed("error-event"), APIError)),
    "an error in a stream of responses": async () => {
      const run = async () => {
        const events = await client.responses.create({ model, input: "Please [[broken]].", stream: true });
        for await (const _ of events);
      };
      await is(run, APIError);
    },
    "a timeout": async () => {
      const impatient = client.withOptions({ timeout: 300 });
      const run = () => impatient.chat.completions.create({ model, messages: told("hang") });
      await is(run, APIConnectionTimeoutError);
    },
    "a stream that is left": async () => {
      const before = engine.left();
      const stream = await client.chat.completions.create({ model, messages: told("endless"), stream: true });
      let seen = 0;
      for await (const _ of stream) if (++seen === 5) break;
      await leftAtEngine(engine, before);
    },
    "an abort": async () => {
      const before = [engine.silent(), engine.left()] as const;
      const abort = new AbortController();
      const options = { signal: abort.signal };
      const ended = is(
        () => client.chat.completions.create({ model, messages: told("hang") }, options),
        APIUserAbortError,
      );
      await eventually(() => engine.silent() > before[0], "the engine is asked");
      abort.abort();
      await ended;
      await leftAtEngine(engine, before[1]);
    },
  };
}

async function eventually(holds: () => boolean, what: string): Promise<void> {
  for (let i = 0; i < 500 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 30));
  check(holds(), what);
}

/** The router must cut what nobody waits for. */
export async function leftAtEngine(engine: ClientFleet["engine"], before: number): Promise<void> {
  await eventually(() => engine.left() > before, "the engine is left too");
}

function passed(client: OpenAI, { scripted: model }: ClientFleet): Cases {
  return {
    "all members and parts reach the engine": async () => {
      const body = {
        model,
        messages: [
          {
            role: "user" as const,
            content: [
              { type: "text" as const, text: "[[echo]] ünï 🦜" },
              { type: "image_url" as const, image_url: { url: PIXEL, detail: "low" as const } },
            ],
          },
        ],
        n: 1,
        seed: 7,
        logit_bias: { "5": -100 },
        stop: ["a", "b"],
        response_format: { type: "json_object" as const },
        guided_json: { type: "object" },
        guided_grammar: "root ::= [a-z]+",
        cache_salt: "s",
        parallel_tool_calls: false,
        chat_template_kwargs: { enable_thinking: false },
        my_member: [1.0, null, { deep: true }],
      };
      const answer = await client.chat.completions.create(body);
      const got = JSON.parse(answer.choices[0]?.message.content ?? "");
      check(JSON.stringify(got) === JSON.stringify(body), "the engine got what was sent", got);
    },
    "audio to text": async () => {
      const file = await toFile(Buffer.alloc(300_000, 7), "a.wav");
      const answer = await client.audio.transcriptions.create({ model, file });
      check(/^scripted heard 300\d{3}$/.test(answer.text), "the form came whole", answer);
    },
    "text to audio": async () => {
      const answer = await client.audio.speech.create({ model, voice: "v", input: "x" });
      check((await answer.arrayBuffer()).byteLength === 2_000, "the sound came whole");
    },
  };
}

function embeddings(client: OpenAI, model: string): Case {
  return {
    client: CLIENT,
    name: "embeddings",
    model,
    async run() {
      const answer = await client.embeddings.create({ model, input: ["a cat", "a dog"] });
      check(answer.data.length === 2, "there are two", answer.data.length);
      check((answer.data[0]?.embedding.length ?? 0) > 100, "they are vectors", answer.data[0]?.embedding.length);
    },
  };
}
