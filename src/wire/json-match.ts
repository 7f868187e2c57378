import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { CgnError } from "../core/errors.ts";
import { answerMatch, asConnectError, type KvService, type MatchAsk } from "./kv-server.ts";
import { readLargeObject, textOf } from "./large-json.ts";
import type { WireRequest, WireResponse } from "./listen.ts";
import { readCallBody } from "./read-body.ts";

const PATH = "/cgn.kv.v1.PrefixIndex/Match";
/** Smaller bodies cost Connect's own reader less than the answer is worth. */
const LARGE_BYTES = 64 * 1024;
const LISTS = new Set(["tokenIds", "token_ids"]);

/**
 * Answer `Match` in JSON where its body is large, as Connect's unary protocol has it: Connect reads such a body in one go, which
 * holds all other calls for half a second at 4 MiB. False for all else.
 */
export function jsonMatchRoute(service: KvService): (req: WireRequest, res: WireResponse) => boolean {
  return (req, res) => {
    const { headers, method, url } = req;
    if (url !== PATH || method !== "POST" || !/^application\/json\b/i.test(headers["content-type"] ?? "")) return false;
    if ((headers["content-encoding"] ?? "identity") !== "identity") return false;
    if (Number(headers["content-length"] ?? Number.POSITIVE_INFINITY) <= LARGE_BYTES) return false;
    readCallBody(req)
      .then(readAsk)
      .then((ask) => answerMatch(service, ask))
      .then(
        (matches) => reply(res, 200, Buffer.from(JSON.stringify({ matches }))),
        (error: unknown) => {
          const known = ConnectError.from(asConnectError(error), Code.Internal);
          reply(res, codeToHttpStatus(known.code), errorToJsonBytes(known, undefined));
        },
      );
    return true;
  };
}

async function readAsk(body: Buffer): Promise<MatchAsk> {
  const members = await readLargeObject(body, LISTS);
  const ask: { -readonly [K in keyof MatchAsk]: MatchAsk[K] } = {
    ...{ model: "", root: "", prompt: new Uint8Array(), tokenIds: [] },
  };
  for (const [name, value] of members) {
    if (!Buffer.isBuffer(value)) ask.tokenIds = value;
    else if (name === "model" || name === "root") ask[name] = requireText(name, value);
    else if (name === "prompt") ask.prompt = fromBase64(requireText(name, value));
    else if (LISTS.has(name)) throw wrong(`${name} is no list`);
  }
  return ask;
}

function requireText(name: string, value: Buffer): string {
  const text = textOf(value);
  if (text === undefined) throw wrong(`${name} is no text`);
  return text;
}

function fromBase64(text: string): Buffer {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) throw wrong("prompt is no base64");
  return Buffer.from(text, "base64");
}

function wrong(what: string): CgnError {
  const message = `Cannot read the request: ${what}. Send {"model", "root", "prompt" or "tokenIds"}`;
  return new CgnError("REQUEST_INVALID", message, {}) as CgnError;
}

function reply(res: WireResponse, status: number, bytes: Uint8Array): void {
  if (res.headersSent || res.destroyed) return;
  const headers = { "content-type": "application/json", "content-length": bytes.length };
  // The two kinds of responses differ in types that do not matter here.
  (res as { writeHead(status: number, headers: object): unknown }).writeHead(status, headers);
  (res as { end(bytes: Uint8Array): unknown }).end(bytes);
}
