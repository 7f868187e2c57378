import { CgnError } from "../../core/errors.ts";
import type { ClientRequest } from "../../http/client-response.ts";
import type { AwayClient, AwayLeg, AwayRequest, LegOrder } from "../away.ts";
import { type ReadRequest, read } from "../read.ts";
import type { Prompt } from "../render.ts";
import type { LegEnd } from "../sinks.ts";
import { AwayResponse } from "./away-response.ts";
import type { Outbox } from "./outbox.ts";
import type { FromDoor, SentBody, SentEnd, SentHead, SentPrompt, SentRead, ToDoor, Told } from "./protocol.ts";
import { takeTold } from "./sent-error.ts";

const EMPTY = Buffer.alloc(0);

/** What a question is answered that nobody can answer any more. */
const gone = (): CgnError =>
  new CgnError("CALLER_LEFT", "The client's connection, or the thread that had it, is gone", {}) as CgnError;

type Awaited<T> = { resolve(value: T): void; reject(error: unknown): void };

/** The main thread's end of one request whose connection another thread has. */
export class RemoteClient implements AwayClient, AwayRequest {
  readonly isAway = true;
  readonly req: ClientRequest;
  readonly res: AwayResponse;
  readonly #id: number;
  readonly #to: Outbox<ToDoor>;
  #read: Told<SentRead> | undefined;
  #prompt: SentPrompt | undefined;
  #leg: RemoteLeg | undefined;
  #legs = 0;
  #isGone = false;
  /** Questions that are asked one after another: one waits at most. */
  #awaited: Awaited<never> | undefined;

  constructor(id: number, head: SentHead, told: Told<SentRead> | undefined, to: Outbox<ToDoor>) {
    this.#id = id;
    this.#to = to;
    this.#read = told;
    this.req = head;
    this.res = new AwayResponse({
      part: (part) => to.post({ t: "answer", id, part }),
      cut: () => to.post({ t: "cut", id }),
    });
  }

  get canFold(): boolean {
    return this.#facts().canFold;
  }

  get textBytes(): number {
    return this.#prompt?.textBytes ?? 0;
  }

  read(): ReadRequest | Promise<ReadRequest> {
    if (this.#read !== undefined) return this.#request();
    this.#to.post({ t: "read", id: this.#id });
    return this.#ask<Told<SentRead>>().then((told) => {
      this.#read = told;
      return this.#request();
    });
  }

  prompt({ model = "", root }: ReadRequest): Prompt | Promise<Prompt> {
    const known = this.#prompt;
    if (known !== undefined && known.model === model && known.root === root) return known.prompt;
    this.#to.post({ t: "prompt", id: this.#id, model, root });
    return this.#ask<SentPrompt>().then((made) => {
      this.#prompt = made;
      return made.prompt;
    });
  }

  async bring(): Promise<ReadRequest> {
    this.#to.post({ t: "bring", id: this.#id });
    const { body, headers, rawHeaders } = takeTold(await this.#ask<Told<SentBody>>());
    Object.assign(this.req, { headers, rawHeaders });
    const target = this.req.url ?? "";
    const { kind } = this.#facts();
    const bytes = Buffer.from(body.buffer as ArrayBuffer, body.byteOffset, body.byteLength);
    const at = target.indexOf("?");
    return read({ kind }, bytes, headers["content-type"], at < 0 ? "" : target.slice(at + 1));
  }

  leg(order: LegOrder): AwayLeg {
    this.#leg = new RemoteLeg(this.#id, ++this.#legs, order, this.res, this.#to);
    if (this.#isGone) this.#leg.left();
    return this.#leg;
  }

  /** What the thread said of this request. */
  take(message: FromDoor): void {
    switch (message.t) {
      case "read":
        this.#answered<Told<SentRead>>(message.read);
        return;
      case "prompt":
        this.#answered<SentPrompt>(message.prompt);
        return;
      case "brought":
        this.#answered<Told<SentBody>>(message.body);
        return;
      case "head":
      case "first":
      case "ended":
        if (this.#leg?.number !== message.leg) return;
        if (message.t === "ended") this.#leg.ended(message.end);
        else this.#leg[message.t]();
        return;
      case "drain":
        this.res.emit("drain");
        return;
      case "left":
        this.#left();
    }
  }

  /** The thread is gone, and the connection with it. */
  gone(): void {
    this.#left();
    this.#leg?.left();
  }

  /** Questions about it are not answered any more; a leg's end is, with what it found out. */
  #left(): void {
    this.#isGone = true;
    this.res.left();
    const waiting = this.#awaited;
    this.#awaited = undefined;
    waiting?.reject(gone());
  }

  #facts(): SentRead {
    if (this.#read === undefined) throw new TypeError("Nothing was read of the request yet");
    return takeTold(this.#read);
  }

  #request(): ReadRequest {
    const { kind, model, stream, root, readsCache, unmatched, lora, prompt } = this.#facts();
    this.#prompt = prompt;
    return {
      kind,
      model,
      stream,
      root,
      readsCache,
      body: EMPTY,
      json: lora === undefined ? undefined : { lora_path: lora },
      ...(unmatched === undefined ? {} : { unmatched }),
      away: this,
    };
  }

  #ask<T>(): Promise<T> {
    if (this.#isGone) return Promise.reject(gone());
    return new Promise<T>((resolve, reject) => {
      this.#awaited = { resolve, reject };
    });
  }

  #answered<T>(value: T): void {
    const waiting = this.#awaited as Awaited<T> | undefined;
    this.#awaited = undefined;
    waiting?.resolve(value);
  }
}

/** A leg that the other thread carries, seen from here. */
class RemoteLeg implements AwayLeg {
  place: number | undefined;
  readonly number: number;
  readonly #id: number;
  readonly #order: LegOrder;
  readonly #res: AwayResponse;
  readonly #to: Outbox<ToDoor>;
  #end: Told<LegEnd> | undefined;
  #awaited: Awaited<LegEnd> | undefined;
  #seen = false;

  constructor(id: number, number: number, order: LegOrder, res: AwayResponse, to: Outbox<ToDoor>) {
    this.#id = id;
    this.number = number;
    this.#order = order;
    this.#res = res;
    this.#to = to;
  }

  run(): Promise<LegEnd> {
    const { facts: _facts, onHead: _onHead, onFirst: _onFirst, worker, ...order } = this.#order;
    const set = this.#res.takeSet();
    const tellsHead = order.traceparent !== undefined;
    if (this.#end === undefined)
      this.#to.post({
        t: "leg",
        id: this.#id,
        leg: this.number,
        order: { ...order, worker: worker.id, set, tellsHead },
      });
    return new Promise((resolve, reject) => {
      this.#awaited = { resolve, reject };
      this.#tell();
    });
  }

  lost(reason: string): void {
    this.#to.post({ t: "lost", id: this.#id, leg: this.number, reason });
  }

  head(): void {
    this.#order.onHead();
  }

  first(): void {
    if (this.#seen) return;
    this.#seen = true;
    this.#order.onFirst();
  }

  ended(told: Told<SentEnd>): void {
    if ("ok" in told) {
      Object.assign(this.#order.facts, told.ok.facts);
      this.#res.became(told.ok.answer);
      this.#end = { ok: withBuffer(told.ok.end) };
    } else this.#end ??= told;
    this.#tell();
  }

  /** Nobody tells of its end any more. */
  left(): void {
    this.#end ??= { ok: { type: "left" } };
    this.#tell();
  }

  #tell(): void {
    const waiting = this.#awaited;
    if (waiting === undefined || this.#end === undefined) return;
    this.#awaited = undefined;
    try {
      waiting.resolve(takeTold(this.#end));
    } catch (e) {
      waiting.reject(e);
    }
  }
}

/** A port makes plain bytes of a Buffer. */
function withBuffer(end: LegEnd): LegEnd {
  if (end.type !== "retry" || end.held === undefined) return end;
  const { body } = end.held;
  return { ...end, held: { ...end.held, body: Buffer.from(body.buffer, body.byteOffset, body.byteLength) } };
}
