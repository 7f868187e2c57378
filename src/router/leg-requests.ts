import { CgnError } from "../core/errors.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Abilities, Way } from "./abilities.ts";
import type { Exchange } from "./accept.ts";
import type { AskedFor, Conversion } from "./convert/conversion.ts";
import type { ReadRequest } from "./read.ts";

/** What undoes a leg's conversion on the way back. */
export interface LegConversion {
  readonly by: Conversion;
  readonly asked: AskedFor;
}

/** Bodies above this are not converted: they are built whole for it, and again as text. */
const CONVERT_BYTES = 32 * 1024 * 1024;

/** One client's request in the forms that workers may need; each is made once, when it is first asked for. */
export class LegRequests {
  readonly #request: ReadRequest;
  readonly #exchange: Pick<Exchange, "id" | "path" | "target">;
  #chat: ReadRequest | undefined;
  #problem: CgnError | undefined;

  constructor(request: ReadRequest, exchange: Pick<Exchange, "id" | "path" | "target">) {
    this.#request = request;
    this.#exchange = exchange;
  }

  /**
   * The request as a worker gets it, but for what is spliced for that worker.
   * @throws CgnError REQUEST_INVALID, NOT_SUPPORTED where it cannot be converted
   */
  by({ path, convert }: Way): ReadRequest {
    if (convert !== undefined) return { ...this.chat(convert), target: path };
    if (path === this.#exchange.path) return this.#request;
    const query = /\?.*$/s.exec(this.#exchange.target ?? "")?.[0] ?? "";
    return { ...this.#request, target: path + query };
  }

  /** @throws CgnError REQUEST_INVALID, NOT_SUPPORTED */
  chat(convert: Conversion): ReadRequest {
    if (this.#problem !== undefined) throw this.#problem;
    try {
      this.#chat ??= converted(this.#request, convert, this.#exchange.id);
    } catch (e) {
      if (e instanceof CgnError) this.#problem = e;
      throw e;
    }
    return this.#chat;
  }

  /**
   * The workers that can be asked; where some have the API itself and the request cannot be converted, only those.
   * @throws CgnError REQUEST_INVALID, NOT_SUPPORTED where all would need a conversion that there is not
   */
  able(abilities: Abilities, workers: readonly WorkerInfo[], path: string): readonly WorkerInfo[] {
    const able = abilities.able(workers, path);
    const convert = able.length === 0 ? undefined : abilities.conversionFor(able, path);
    if (convert === undefined) return able;
    try {
      this.chat(convert);
      return able;
    } catch (e) {
      const own = able.filter((worker) => abilities.way(worker, path)?.convert === undefined);
      if (own.length === 0) throw e;
      return own;
    }
  }
}

function converted(request: ReadRequest, by: Conversion, id: string): ReadRequest {
  const { body, unmatched } = request;
  if (body.length > CONVERT_BYTES) {
    const is = `its body has ${body.length} bytes`;
    const message = `Cannot convert the request for an engine that has only chat completions: ${is}. At most ${CONVERT_BYTES} are taken`;
    throw new CgnError("REQUEST_TOO_LARGE", message, { limitBytes: CONVERT_BYTES });
  }
  const json =
    (unmatched === undefined ? request.json : (JSON.parse(body.toString("utf8")) as ReadRequest["json"])) ?? {};
  const chat = by.request(json);
  const { members: _of, ...rest } = request;
  const { model = request.model } = json;
  const asked: AskedFor = { id, model: String(model), json };
  return { ...rest, kind: "chat", json: chat, body: bytesOf(chat), convert: { by, asked } };
}

/** @throws CgnError REQUEST_INVALID for a value so deep that it cannot be written */
function bytesOf(chat: object): Buffer {
  try {
    return Buffer.from(JSON.stringify(chat));
  } catch {
    const message = "Cannot convert the request: it is nested too deep. Send at most a few levels";
    throw new CgnError("REQUEST_INVALID", message, {});
  }
}
