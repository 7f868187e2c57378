import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openAccess } from "../../access/access.ts";
import { hashApiKey, newApiKey } from "../../access/api-key.ts";
import { parseKeyLines } from "../../access/key-lines.ts";
import { SILENT_LOG } from "../../core/log.ts";
import { RELOAD_PATH, ROLE_PATH } from "../../core/reload-report.ts";
import { realClock, startTestRouter, type TestRouter, testWorker } from "../testing/test-router.ts";
import { ADMIN_OPERATIONS, type AdminOperation } from "./admin-operations.ts";
import { FRONT_OPERATIONS, type FrontOperation } from "./front-operations.ts";
import { openApiDocument } from "./openapi.ts";

interface Operation {
  readonly responses: Readonly<Record<string, { readonly $ref?: string; readonly content?: object }>>;
}

const document = openApiDocument() as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addSchema(document, "openapi");
const pointer = (...parts: readonly string[]): string =>
  `openapi#/${parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/")}`;

/** What of an answer is not as the document says of the operation. */
async function differences(path: string, method: string, answer: Response): Promise<string[]> {
  const operation = document.paths[path]?.[method];
  const { status } = answer;
  const found = operation?.responses[status];
  const text = await answer.text();
  if (found === undefined) return [`${status} is not documented: ${text.slice(0, 200)}`];
  const type = (answer.headers.get("content-type") ?? "").split(";")[0]!;
  const place =
    found.$ref === undefined
      ? pointer("paths", path, method, "responses", String(status), "content", type, "schema")
      : pointer("components", "responses", found.$ref.split("/").at(-1)!, "content", type, "schema");
  const check = tryCompile(place);
  if (check === undefined) return [`${status} comes as ${type}, which is not documented`];
  return check(type === "application/json" ? JSON.parse(text) : text)
    ? []
    : (check.errors ?? []).map(({ instancePath, message }) => `${status} ${instancePath} ${message}`);
}

function tryCompile(place: string): ReturnType<typeof ajv.compile> | undefined {
  try {
    return ajv.compile({ $ref: place });
  } catch {
    return undefined;
  }
}

/** An engine of every endpoint: what is asked decides what it answers. */
function startAnyEngine(): Promise<Server> {
  const server = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    if (body.includes('"stream":true')) {
      res.writeHead(200, { "content-type": "text/event-stream" });
      return void res.end('data: {"choices":[]}\n\ndata: [DONE]\n\n');
    }
    const status = body.includes("engine-fails") ? 500 : body.includes("engine-refuses") ? 400 : 200;
    res.writeHead(status, { "content-type": "application/json" });
    const message = "The engine's own words";
    res.end(
      JSON.stringify(status === 200 ? { id: "x", choices: [] } : { error: { message, type: "x", code: status } }),
    );
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

const BODIES: Readonly<Record<NonNullable<FrontOperation["body"]>, object>> = {
  chat: { messages: [{ role: "user", content: "hi" }] },
  completion: { prompt: "hi" },
  messages: { max_tokens: 4, messages: [{ role: "user", content: "hi" }] },
  responses: { input: "hi" },
  input: { input: "hi" },
  form: {},
  any: { query: "hi", documents: ["a"], text: "hi", prompt: "hi", tokens: [1] },
};

/** A request as the document has it. */
function ask(base: string, { path, method, body }: FrontOperation, model: string, more: object = {}, key?: string) {
  const url = base + path.replace("{model}", model);
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  if (method === "get" || body === undefined) return fetch(url, { headers });
  if (body === "form") {
    const form = new FormData();
    for (const [name, value] of Object.entries({ model, ...more })) form.append(name, String(value));
    form.append("file", new Blob(["x"]), "x.wav");
    return fetch(url, { method: "POST", headers, body: form });
  }
  const json = JSON.stringify({ model, ...BODIES[body], ...more });
  return fetch(url, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: json });
}

let engine: Server;
let open: TestRouter;
let empty: TestRouter;
let locked: TestRouter;
const key = newApiKey();
const viewer = newApiKey();

beforeAll(async () => {
  engine = await startAnyEngine();
  const url = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`;
  const workers = [testWorker("a", url, { traits: {} })];
  const posts = { [RELOAD_PATH]: async () => ({}), [ROLE_PATH]: async () => ({}) };
  open = await startTestRouter(workers, {}, undefined, undefined, { extras: { posts } });
  empty = await startTestRouter([]);
  const lines = `${hashApiKey(key)} name=ops scopes=admin\n${hashApiKey(viewer)} name=view scopes=metrics`;
  const settings = {
    auth: { enabled: true, keys: parseKeyLines(lines).entries },
    rateLimit: { enabled: false, rps: 1, burst: 1 },
    cluster: "test",
  };
  locked = await startTestRouter(workers, {}, undefined, undefined, {
    access: await openAccess(settings, { clock: realClock, log: SILENT_LOG }),
  });
});
afterAll(async () => {
  for (const test of [open, empty, locked]) await test?.router.close();
  engine?.closeAllConnections();
  engine?.close();
});

/** A case of those operations that have it: for the others there is nothing to skip. */
const where = (applies: boolean) => (name: string, test: () => Promise<void>) => {
  if (applies) it(name, test);
};

describe.each(FRONT_OPERATIONS.map((operation) => [`${operation.method} ${operation.path}`, operation] as const))(
  "%s is served as the document says",
  (_, operation) => {
    const { path, method } = operation;
    it.each([
      ["with an engine", () => ask(open.url, operation, "m")],
      ["without one", () => ask(empty.url, operation, "m")],
      ["of a model that is not there", () => ask(open.url, operation, "nobody")],
      ["without a key", () => ask(locked.url, operation, "m")],
      ["with a key of another scope", () => ask(locked.url, operation, "m", {}, viewer)],
      ["when the engine fails", () => ask(open.url, operation, "m", { user: "engine-fails" })],
      ["when the engine refuses", () => ask(open.url, operation, "m", { user: "engine-refuses" })],
      ["with a body above the limit", () => ask(open.url, operation, "m", { user: "x".repeat(70_000) })],
    ])("%s", async (_name, request) => {
      expect(await differences(path, method, await request())).toEqual([]);
    });

    where(operation.streams === true && operation.body !== "form")("as a stream", async () => {
      const answer = await ask(open.url, operation, "m", { stream: true });
      expect(answer.headers.get("content-type")).toMatch(/^text\/event-stream/);
      expect(await differences(path, method, answer)).toEqual([]);
    });

    where(method === "post")("with the headers that name the request and who answered", async () => {
      const { headers, body } = await ask(open.url, operation, "m");
      await body?.cancel();
      expect([headers.get("x-request-id")?.length, headers.get("x-cgn-node")]).toEqual([36, "a"]);
    });

    where(method === "post" && operation.body !== "form")("with what is no JSON", async () => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(open.url + path, { method: "POST", headers, body: '{"model": "m", ' });
      expect(await differences(path, method, answer)).toEqual([]);
    });
  },
);

describe.each(ADMIN_OPERATIONS.map((operation) => [`${operation.method} ${operation.path}`, operation] as const))(
  "%s of the admin port is served as the document says",
  (_, operation) => {
    const { path, method, query = {} } = operation;
    const send = (base: string, id: string, more: RequestInit = {}) => {
      const asked = new URLSearchParams(
        Object.entries(query).map(([name, { type }]) => [name, type === "integer" ? "5" : id]),
      );
      const url = `${base}${path.replaceAll(/\{\w+\}/g, id)}?${asked}`;
      return fetch(url, { method: method.toUpperCase(), ...bodyFor(operation), ...more });
    };
    it.each([
      ["of what is there", () => send(open.admin, "a")],
      ["of what is not", () => send(open.admin, "nobody")],
      ["without engines", () => send(empty.admin, "a")],
      ["with a key", () => send(locked.admin, "a", { headers: { authorization: `Bearer ${key}` } })],
      ["from another page", () => send(open.admin, "a", { headers: { origin: "http://evil.example" } })],
      ["from this page without a key", () => send(locked.admin, "a", { headers: { origin: locked.admin } })],
      [
        "from this page with a key of another scope",
        () => send(locked.admin, "a", { headers: { origin: locked.admin, authorization: `Bearer ${viewer}` } }),
      ],
      [
        "by a wrong setting",
        () =>
          send(open.admin, "a", {}).then(() =>
            fetch(`${open.admin}${path.replaceAll(/\{\w+\}/g, "%")}?x=y`, { method: method.toUpperCase() }),
          ),
      ],
    ])("%s", async (_name, request) => {
      expect(await differences(path, method, await request())).toEqual([]);
    });
  },
);

const bodyFor = ({ id }: AdminOperation): RequestInit =>
  id === "chat" ? { body: JSON.stringify({ model: "m", ...BODIES.chat }) } : {};
