import { z } from "zod";
import { CgnError, CODES, isCgnError, toCgnError } from "../core/errors.ts";
import type { Tier } from "../core/kv-event.ts";
import { rootKey, type WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { MAX_PROMPT_BYTES, MAX_PROMPT_TOKENS } from "../wire/kv-limits.ts";
import type { TokenIds } from "../wire/kv-server.ts";
import { readLargeObject } from "../wire/large-json.ts";
import type { WireRequest, WireResponse } from "../wire/listen.ts";
import { readCallBody } from "../wire/read-body.ts";
import { tooManyTokens } from "./prompt-tokens.ts";
import type { Kvcached } from "./service.ts";

/** cgn keeps no tenants apart by name: what must not be shared has a salt. */
const TENANT = "default";

const isList = (value: unknown): boolean => Array.isArray(value) || value instanceof Uint32Array;

const querySchema = z.object({
  model: z.string(),
  // Looked at one by one only after their number.
  token_ids: z.custom<TokenIds>(isList, "Invalid input: expected array"),
  lora_name: z.string().nullish(),
  cache_salt: z.union([z.string(), z.number()]).nullish(),
  tenant_id: z.union([z.string(), z.number()]).nullish(),
  instance_id: z.string().nullish(),
  block_size: z.int().min(1).nullish(),
});

export type ConductorQuery = z.infer<typeof querySchema>;

/** What one engine holds of a prompt, in tokens. */
export interface ConductorHits {
  /** The most among its data-parallel ranks. */
  longest_matched: number;
  GPU: number;
  CPU: number;
  DISK: number;
  /** By data-parallel rank. */
  readonly DP: Record<string, number>;
}

export type ConductorAnswer = Readonly<Record<string, Readonly<Record<string, ConductorHits>>>>;

const MEDIA: Readonly<Record<Tier, "GPU" | "CPU" | "DISK">> = {
  device: "GPU",
  host: "CPU",
  disk: "DISK",
  shared: "DISK",
};

/**
 * Answer `POST /query` as Mooncake Conductor's indexer does (its "Indexer API" page, October 2026), so that gateways that ask it can
 * ask kvcached. Tokens stand under the slowest medium that the matched prefix needs; a shorter part of it that lies in a
 * faster one is not told apart. What is matched is what the engine will report as cached: it always computes a prompt's last token.
 * @throws CgnError REQUEST_INVALID, REQUEST_TOO_LARGE, DEPENDENCY_UNREACHABLE when the model's vocabulary is not known (yet)
 */
export async function conductorQuery(service: Kvcached, query: ConductorQuery): Promise<ConductorAnswer> {
  const tenant = String(query.tenant_id ?? TENANT);
  if (query.token_ids.length > MAX_PROMPT_TOKENS) throw tooManyTokens(query.token_ids.length);
  if (!service.knowsModel(query.model)) return { [tenant]: {} };
  const prompt = await service.decodePrompt(query.model, query.token_ids);
  if (prompt.length > MAX_PROMPT_BYTES) {
    const message = `Cannot match a prompt of ${prompt.length} bytes: at most ${MAX_PROMPT_BYTES} are taken. Send its beginning`;
    throw new CgnError("REQUEST_TOO_LARGE", message, {});
  }
  const workers = new Map(service.workers().map((info) => [info.id, info]));
  const root = rootKey(query.lora_name ?? "", String(query.cache_salt ?? ""));
  const hits: Record<string, ConductorHits> = {};
  for (const match of service.match({ model: query.model, root, prompt })) {
    const info = workers.get(match.worker);
    if (info === undefined || !isAsked(info, query)) continue;
    add(hits, info, match);
  }
  return { [tenant]: hits };
}

/** Id without the rank. */
const instanceOf = ({ id, rank }: WorkerInfo): string => (rank === undefined ? id : id.replace(/#dp\d+$/, ""));

function isAsked(info: WorkerInfo, { instance_id, block_size }: ConductorQuery): boolean {
  if (instance_id != null && instance_id !== instanceOf(info)) return false;
  return block_size == null || info.blockTokens === undefined || info.blockTokens === block_size;
}

function add(hits: Record<string, ConductorHits>, info: WorkerInfo, { tokens, tier }: WorkerMatch): void {
  const hit = (hits[instanceOf(info)] ??= { longest_matched: 0, GPU: 0, DP: {}, CPU: 0, DISK: 0 });
  const medium = MEDIA[tier];
  hit.longest_matched = Math.max(hit.longest_matched, tokens);
  hit[medium] = Math.max(hit[medium], tokens);
  const rank = String(info.rank?.index ?? 0);
  hit.DP[rank] = Math.max(hit.DP[rank] ?? 0, tokens);
}

/** Serve it beside the RPCs; false for other paths. */
export function conductorRoute(service: Kvcached): (req: WireRequest, res: WireResponse) => boolean {
  return (req, res) => {
    if (req.url !== "/query" || req.method !== "POST") return false;
    readQuery(req)
      .then((body) => conductorQuery(service, parsed(body)))
      .then(
        (answer) => reply(res, 200, answer),
        (error: unknown) => {
          const known = isCgnError(error) ? error : toCgnError(error);
          const status = CODES[known.code].http;
          reply(res, status, { error: { code: known.code.toLowerCase(), message: known.message } });
        },
      );
    return true;
  };
}

function parsed(body: unknown): ConductorQuery {
  const result = querySchema.safeParse(body);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const message = `Cannot read the query: ${issue?.path.join(".") || "the body"}: ${issue?.message}. Send {"model", "token_ids"}`;
  throw new CgnError("REQUEST_INVALID", message, { param: issue?.path.join(".") });
}

const TOKEN_IDS = new Set(["token_ids"]);

/** The members that are asked for; others are not looked at. */
async function readQuery(req: WireRequest): Promise<object> {
  const members = await readLargeObject(await readCallBody(req), TOKEN_IDS);
  const known = [...members].filter(([name]) => Object.hasOwn(querySchema.shape, name));
  try {
    return Object.fromEntries(known.map(([name, value]) => [name, parsedMember(value)]));
  } catch {
    throw new CgnError("REQUEST_INVALID", 'Cannot read the query: it is no JSON. Send {"model", "token_ids"}', {});
  }
}

const parsedMember = (value: Uint32Array | Buffer): unknown =>
  Buffer.isBuffer(value) ? JSON.parse(value.toString("utf8")) : value;

function reply(res: WireResponse, status: number, body: unknown): void {
  if (res.headersSent || res.destroyed) return;
  const bytes = Buffer.from(JSON.stringify(body));
  const headers = { "content-type": "application/json", "content-length": bytes.length };
  // The two kinds of responses differ in types that do not matter here.
  (res as { writeHead(status: number, headers: object): unknown }).writeHead(status, headers);
  (res as { end(bytes: Uint8Array): unknown }).end(bytes);
}
