import { execFile } from "node:child_process";
import { type Case, check, forTargets, QUESTION, scripted, told } from "./cases.ts";
import type { ClientFleet, Target } from "./fleet.ts";

const CLIENT = "curl";

interface Said {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The program itself: what a person tries first. */
export function curlCases(fleet: ClientFleet): Case[] {
  const { url } = fleet;
  return [
    ...forTargets(CLIENT, fleet.targets, streams(url)),
    ...forTargets(
      CLIENT,
      fleet.targets.filter((t) => !t.chatOnly),
      tokens(url),
    ),
    ...scripted(CLIENT, fleet, passed(fleet)),
  ];
}

/** @param more further arguments, such as a method */
async function curl(url: string, body?: unknown, ...more: readonly string[]): Promise<Said> {
  const data =
    body === undefined
      ? []
      : ["-d", typeof body === "string" ? body : JSON.stringify(body), "-H", "content-type: application/json"];
  const args = ["-sS", "-N", "-i", "--max-time", "20", ...data, ...more, url];
  const out = await new Promise<string>((resolve, reject) => {
    execFile("curl", args, { maxBuffer: 64 * 1024 * 1024 }, (e, stdout) => (e === null ? resolve(stdout) : reject(e)));
  });
  const [, head = "", body2 = ""] = /^(?:HTTP\/1\.1 100.*?\r\n\r\n)?(.*?)\r\n\r\n(.*)$/s.exec(out) ?? [];
  const [first = "", ...lines] = head.split("\r\n");
  const pairs = lines.map((line) => [
    line.slice(0, line.indexOf(":")).toLowerCase(),
    line.slice(line.indexOf(":") + 2),
  ]);
  return { status: Number(first.split(" ")[1]), headers: Object.fromEntries(pairs), body: body2 };
}

function streams(url: string): Readonly<Record<string, (target: Target) => Promise<void>>> {
  return {
    async "stream and its headers"({ model }) {
      const { status, headers, body } = await curl(`${url}/v1/chat/completions`, {
        model,
        messages: QUESTION,
        max_tokens: 4,
        stream: true,
      });
      check(status === 200 && headers["content-type"]?.startsWith("text/event-stream"), "it streams", {
        status,
        headers,
      });
      check(body.trimEnd().endsWith("data: [DONE]"), "it is done", body.slice(-100));
      check(!/"usage":\s*\{/.test(body) || body.includes('"choices":[{'), "no chunk with nothing but usage");
      check(
        (headers["x-cgn-node"] ?? "") !== "" && (headers["x-request-id"] ?? "") !== "",
        "it tells who answered",
        headers,
      );
    },
    async "messages stream"({ model }) {
      const body = { model, messages: QUESTION, max_tokens: 4, stream: true };
      const said = await curl(`${url}/v1/messages`, body, "-H", "anthropic-version: 2023-06-01");
      const events = [...said.body.matchAll(/^event: (.*)$/gm)].map((m) => m[1]);
      check(events[0] === "message_start" && events.includes("message_stop"), "it begins and ends", events);
    },
  };
}

function tokens(url: string): Readonly<Record<string, (target: Target) => Promise<void>>> {
  return {
    async "tokenize and back"({ model }) {
      // llama-server's name for the text is another.
      const said = await curl(`${url}/tokenize`, { model, prompt: "Hello there", content: "Hello there" });
      const ids = JSON.parse(said.body).tokens;
      check(said.status === 200 && ids.length > 1, "it has ids", said);
      const back = await curl(`${url}/detokenize`, { model, tokens: ids });
      check(back.status === 200 && back.body.includes("ello there"), "they say the text", back);
    },
  };
}

function passed({ url, scripted: model }: ClientFleet): Readonly<Record<string, () => Promise<void>>> {
  const echoed =
    (path: string, at = path) =>
    async () => {
      const body = { model, query: "q", documents: ["a", "ü"], n: 1e2 };
      const said = await curl(`${url}${path}`, body);
      check(said.status === 200, "it is passed on", said);
      const { path: asked, got } = JSON.parse(said.body);
      check(asked === at && JSON.stringify(got) === JSON.stringify(body), "as it came", said.body);
    };
  return {
    rerank: echoed("/v1/rerank"),
    score: echoed("/v1/score"),
    pooling: echoed("/pooling"),
    "what nobody knows yet": echoed("/v1/anything/new"),
    "another path of the same API": async () => {
      // The first is answered with "Not Found" by the engine; then its other path is taken.
      await echoed("/v2/rerank", "/v1/rerank")();
      await echoed("/v2/rerank", "/v1/rerank")();
    },
    "errors have each API's form": async () => {
      const chat = await curl(`${url}/v1/chat/completions`, { model: "nope", messages: [] });
      check(JSON.parse(chat.body).error.code === "model_not_found" && chat.status === 404, "OpenAI's", chat);
      const message = await curl(`${url}/v1/messages`, { model: "nope", messages: [] });
      check(
        JSON.parse(message.body).error.type === "not_found_error" && message.status === 404,
        "Anthropic's",
        message,
      );
      const broken = await curl(`${url}/v1/messages`, "{");
      check(JSON.parse(broken.body).type === "error" && broken.status === 400, "for a body that is no JSON", broken);
    },
    "501 says what is missing, and that to repeat it is in vain": async () => {
      const said = await curl(`${url}/classify`, { model, input: "x" });
      check(said.status === 501 && said.headers["x-should-retry"] === "false", "it is refused", said);
      check(said.body.includes("/classify"), "it says which", said.body);
    },
    "an error event in each API's form": async () => {
      const chat = await curl(`${url}/v1/chat/completions`, { model, messages: told("broken"), stream: true });
      check(/data: \{"error":\{"message"/.test(chat.body), "OpenAI's", chat.body);
      const asked = { model, messages: told("broken"), max_tokens: 4, stream: true };
      const message = await curl(`${url}/v1/messages`, asked);
      check(/event: error\ndata: \{"type":"error"/.test(message.body), "Anthropic's", message.body);
      const response = await curl(`${url}/v1/responses`, { model, input: "[[broken]]", stream: true });
      check(/event: error\ndata: \{"type":"error"/.test(response.body), "that of Responses", response.body);
    },
    "operators' paths are not served": async () => {
      for (const path of [
        "/v1/load_lora_adapter",
        "/v1/load_lora_adapter/",
        "/v1//load_lora_adapter",
        "/metrics",
        "/sleep",
      ]) {
        const said = await curl(`${url}${path}`, { model, lora_path: "/etc" });
        check(said.status === 404, `${path} is not found`, said.status);
      }
    },
  };
}
