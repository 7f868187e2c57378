import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../core/clock.ts";
import { CgnError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import type { WorkerInfo } from "../../core/worker.ts";
import { discardBody } from "../../http/body.ts";
import type { Upstreams } from "../../http/upstream.ts";
import { accept, type Exchange } from "../accept.ts";
import { noFacts } from "../answer.ts";
import { findEndpoint } from "../endpoints.ts";
import type { Fleet, ModelGroup } from "../fleet.ts";
import { canFold } from "../fold.ts";
import { type Forwarded, forwardPlan } from "../forward.ts";
import { relayOf } from "../leg.ts";
import { textBytes } from "../prompt-size.ts";
import type { ReadRequest } from "../read.ts";
import { readRequest } from "../read-request.ts";
import type { Relay } from "../relay.ts";
import { type Prompt, type RendererSource, render } from "../render.ts";
import { rootOf } from "../root.ts";
import type { Outbox } from "./outbox.ts";
import type {
  AnswerPart,
  FromDoor,
  SentEnd,
  SentHead,
  SentOrder,
  SentPrompt,
  SentRead,
  ToDoor,
  Told,
} from "./protocol.ts";
import { sentError } from "./sent-error.ts";

/** What all requests of one thread share. */
export interface DoorParts {
  readonly out: Outbox<FromDoor>;
  readonly fleet: Fleet;
  readonly renderers: RendererSource;
  readonly upstreams: Upstreams;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxBodyBytes: number;
  readonly identifiesFirst: boolean;
}

/** One request of a client of this thread: what is done beside its connection. */
export class LocalRequest {
  readonly #id: number;
  readonly #parts: DoorParts;
  readonly #req: IncomingMessage;
  readonly #exchange: Exchange;
  #request: ReadRequest | undefined;
  #relay: Relay | undefined;
  #legs = 0;

  /** @param over told once its answer, or its client, is gone */
  constructor(id: number, parts: DoorParts, req: IncomingMessage, res: ServerResponse, over: () => void) {
    this.#id = id;
    this.#parts = parts;
    this.#req = req;
    this.#exchange = accept(req, res, parts.clock.now());
    res.on("close", () => {
      if (!res.writableFinished) parts.out.post({ t: "left", id });
      over();
    });
  }

  /** Ask the main thread, with all that can be known before it answers. */
  async begin(): Promise<void> {
    const { id, path, method } = this.#exchange;
    const { out, identifiesFirst } = this.#parts;
    const head: SentHead = {
      method,
      url: this.#req.url ?? "/",
      headers: { ...lookedAt(this.#req.headers), "x-request-id": id },
      rawHeaders: credentials(this.#req.rawHeaders),
      startedMs: this.#exchange.startedMs,
    };
    const endpoint = findEndpoint(path);
    const wanted = endpoint?.method ?? method;
    const hasBody = endpoint !== undefined && endpoint.kind !== "models" && wanted === method;
    if (identifiesFirst || !hasBody || this.#exchange.target === undefined) {
      out.post({ t: "ask", id: this.#id, head });
      return;
    }
    const read = await this.#read();
    this.#post((told) => ({ t: "ask", id: this.#id, head, read: told }), read);
    // It was told before the main thread knew of the request.
    if (this.#exchange.left) out.post({ t: "left", id: this.#id });
  }

  take(message: ToDoor): void {
    switch (message.t) {
      case "read":
        void this.#read().then((read) => this.#post((told) => ({ t: "read", id: this.#id, read: told }), read));
        return;
      case "prompt":
        void this.#prompt(message.model, message.root).then((prompt) => {
          this.#parts.out.post({ t: "prompt", id: this.#id, prompt }, memoryOf(prompt));
        });
        return;
      case "bring":
        this.#bring();
        return;
      case "leg":
        this.#leg(message.leg, message.order);
        return;
      case "lost":
        if (message.leg === this.#legs) this.#relay?.lost(message.reason);
        return;
      case "answer":
        this.#answer(message.part);
        return;
      case "cut":
        this.cut();
    }
  }

  #post(make: (told: Told<SentRead>) => FromDoor, read: Told<SentRead>): void {
    this.#parts.out.post(make(read), "ok" in read ? memoryOf(read.ok.prompt) : undefined);
  }

  async #read(): Promise<Told<SentRead>> {
    try {
      const endpoint = findEndpoint(this.#exchange.path);
      if (endpoint === undefined) throw new TypeError("A body is read of endpoints only");
      const request = await readRequest(endpoint, this.#req, this.#exchange.target, this.#parts.maxBodyBytes);
      this.#request = request;
      const { kind, model, stream, root, readsCache, unmatched, json } = request;
      const isPrompted = kind === "chat" || kind === "completion";
      return {
        ok: {
          ...{ kind, model, stream, root, readsCache, unmatched },
          canFold: isPrompted && unmatched === undefined && canFold(json ?? {}),
          lora: json?.["lora_path"],
          prompt: this.#quickPrompt(request),
        },
      };
    } catch (e) {
      return { error: sentError(e) };
    }
  }

  /** The prompt, where it is there at once: else the main thread asks for it when it is its turn. */
  #quickPrompt(request: ReadRequest): SentPrompt | undefined {
    const { fleet, renderers, log } = this.#parts;
    const { model } = request;
    const group = model === undefined ? undefined : fleet.group(model);
    if (model === undefined || group === undefined) return undefined;
    const renderer = renderers.get(group);
    if (renderer instanceof Promise) return undefined;
    const root = rootOf(request, group);
    const rooted = { ...request, root };
    const prompt = render(rooted, renderer, log);
    return prompt instanceof Promise ? undefined : sentPrompt(model, rooted, prompt);
  }

  async #prompt(model: string, root: string): Promise<SentPrompt> {
    const { fleet, renderers, log } = this.#parts;
    const request = { ...this.#request!, model, root };
    const group: ModelGroup = fleet.group(model) ?? { model, workers: [], ready: [] };
    return sentPrompt(model, request, await render(request, await renderers.get(group), log));
  }

  /** Something here is wrong: its client sees that the answer does not come. */
  cut(): void {
    this.#exchange.res.destroy();
  }

  #bring(): void {
    const { out } = this.#parts;
    const { headers, rawHeaders } = this.#req;
    // A body may lie in memory that others share, and a leg of this thread may need it still.
    const body = new Uint8Array(this.#request?.body ?? []);
    out.post({ t: "brought", id: this.#id, body: { ok: { body, headers: { ...headers }, rawHeaders } } }, body.buffer);
  }

  #leg(leg: number, order: SentOrder): void {
    this.#legs = leg;
    const { out, upstreams, clock } = this.#parts;
    const id = this.#id;
    const exchange = this.#exchange;
    const ended = (end: Told<SentEnd>): void => out.post({ t: "ended", id, leg, end });
    try {
      const worker = this.#worker(order.worker);
      const { target, model, traceparent, engineKey } = order;
      const request = { ...this.#request!, model, ...(target === undefined ? {} : { target }) };
      this.#set(order.set);
      exchange.opened = order.opened;
      const forwarded: Forwarded = {
        ...{ id: exchange.id, req: exchange.req, method: exchange.method, target: exchange.target },
        engineKey: engineKey === undefined ? undefined : () => engineKey,
        trace: traceparent === undefined ? undefined : { traceparent: () => traceparent },
      };
      const plan = forwardPlan(forwarded, order, request, worker, order.fresh);
      const facts = noFacts();
      let seen = false;
      const relay = relayOf(
        exchange,
        request,
        worker,
        plan,
        {
          ...{ facts, headers: order.headers, wantText: order.wantText, stream: undefined, limits: order.limits },
          seesFirst: order.seesFirst,
          onHead: () => {
            if (order.tellsHead) out.post({ t: "head", id, leg });
          },
          onFirst: () => {
            if (!seen) out.post({ t: "first", id, leg });
            seen = true;
          },
        },
        clock,
      );
      this.#relay = relay;
      void relay.run(upstreams, worker.url, plan.request).then((end) => {
        const { headersSent, writableEnded, statusCode } = exchange.res;
        ended({ ok: { end, facts, answer: { headersSent, writableEnded, statusCode } } });
      });
    } catch (e) {
      ended({ error: sentError(e) });
    }
  }

  /** The workers are told of before a leg that one of them gets. */
  #worker(id: string): WorkerInfo {
    const found = this.#parts.fleet.workers().find((worker) => worker.id === id);
    if (found !== undefined) return found;
    throw new CgnError("UPSTREAM_FAILED", `Cannot send to ${id}: this thread does not know it`, {});
  }

  #set(headers: SentOrder["set"]): void {
    for (const name in headers) this.#exchange.res.setHeader(name, String(headers[name]));
  }

  #answer({ head, chunk, flush, end, asksDrain }: AnswerPart): void {
    const { res } = this.#exchange;
    if (res.destroyed || res.writableEnded) return;
    if (head !== undefined && !res.headersSent) {
      this.#set(head.set);
      res.writeHead(head.status, head.headers);
    }
    if (flush === true) res.flushHeaders();
    if (end === true) {
      res.end(chunk);
      if (!this.#req.complete) discardBody(this.#req);
      return;
    }
    const more = chunk === undefined || res.write(chunk);
    if (asksDrain !== true) return;
    const drained = (): void => this.#parts.out.post({ t: "drain", id: this.#id });
    if (more) drained();
    else res.once("drain", drained);
  }
}

function sentPrompt(model: string, request: ReadRequest, prompt: Prompt): SentPrompt {
  const { bytes } = prompt;
  // A copy that can be given away: what renders may keep its own.
  const moved = bytes === undefined ? undefined : new Uint8Array(bytes);
  const texts = bytes === undefined ? textBytes(request, prompt) : 0;
  return { model, root: request.root, prompt: { ...prompt, bytes: moved }, textBytes: texts };
}

function memoryOf(prompt: SentPrompt | undefined): ArrayBuffer | undefined {
  return prompt?.prompt.bytes?.buffer as ArrayBuffer | undefined;
}

/** What the main thread looks at: who asks, how it wants to be served, where it comes from. */
const LOOKED_AT = [
  "authorization",
  "x-api-key",
  "anthropic-version",
  "content-type",
  "traceparent",
  "tracestate",
  "origin",
  "access-control-request-method",
  "access-control-request-headers",
];

function lookedAt(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const found: IncomingHttpHeaders = {};
  for (const name of LOOKED_AT) if (headers[name] !== undefined) found[name] = headers[name];
  for (const name in headers) if (name.startsWith("x-cgn-")) found[name] = headers[name];
  return found;
}

/** Each of several headers with a key: a request with two is refused. */
function credentials(raw: readonly string[]): string[] {
  const found: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    if (name.length === 13 && name.toLowerCase() === "authorization") found.push(name, raw[i + 1]!);
  }
  return found;
}
