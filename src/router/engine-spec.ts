import { ENGINE_KINDS, type EngineKind, ROLES, type Role } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import type { KvSource, TokenizerSource } from "../core/worker.ts";

/** An engine that somebody else runs, as `--engine` names it. What is undefined is asked from the engine. */
export interface EngineSpec {
  /** Base URL, without a path. */
  readonly url: string;
  readonly kind?: EngineKind;
  /** The name clients use. */
  readonly model?: string;
  /** Default `both`. */
  readonly role?: Role;
  /** Port of a prefill engine's bootstrap server (SGLang), where it is not its usual one. */
  readonly bootstrapPort?: number;
  readonly kv?: KvSource;
  readonly tokenizer: TokenizerSource;
}

const KEYS = ["kind", "model", "role", "bootstrap", "events", "replay", "tokenizer"] as const;

/**
 * Read `URL[,kind=vllm][,model=NAME][,role=prefill][,bootstrap=PORT][,events=tcp://HOST:PORT][,replay=tcp://…][,tokenizer=DIR]`. A tokenizer is a folder, a
 * `.gguf` file, or `bytes` (the simulator's).
 * @throws CgnError BAD_INVOCATION
 */
export function parseEngineSpec(text: string): EngineSpec {
  const [address = "", ...pairs] = text.split(",");
  const url = baseUrl(address, text);
  const given = new Map<string, string>();
  for (const pair of pairs) {
    const cut = pair.indexOf("=");
    const key = cut < 0 ? pair : pair.slice(0, cut);
    if (cut < 1 || !KEYS.some((known) => known === key)) {
      throw invalid(text, `"${pair}" is no setting of it`, `Use ${KEYS.map((known) => `${known}=…`).join(", ")}`);
    }
    given.set(key, pair.slice(cut + 1));
  }
  const model = given.get("model");
  const kind = kindOf(given.get("kind"), text);
  const role = roleOf(given.get("role"), text);
  const bootstrapPort = portOf(given.get("bootstrap"), text);
  const kv = eventsOf(given.get("events"), given.get("replay"), text);
  return {
    url,
    tokenizer: tokenizerOf(given.get("tokenizer")),
    ...(kind === undefined ? {} : { kind }),
    ...(model === undefined ? {} : { model }),
    ...(role === undefined ? {} : { role }),
    ...(bootstrapPort === undefined ? {} : { bootstrapPort }),
    ...(kv === undefined ? {} : { kv }),
  };
}

function invalid(text: string, is: string, should: string): CgnError {
  return new CgnError("BAD_INVOCATION", `Cannot read --engine "${text}": ${is}. ${should}`, { text }) as CgnError;
}

function baseUrl(address: string, text: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:") || url.search !== "") {
    throw invalid(text, `"${address}" is no address of an engine`, "Write for example http://127.0.0.1:8000");
  }
  // People write the base that they give to OpenAI clients.
  const path = url.pathname.replace(/\/+$/, "");
  if (path !== "" && path !== "/v1")
    throw invalid(text, `it has the path "${path}"`, "Write the address without a path");
  return url.origin;
}

function kindOf(kind: string | undefined, text: string): EngineKind | undefined {
  const known = ENGINE_KINDS.find((each) => each === kind);
  if (kind === undefined || known !== undefined) return known;
  throw invalid(text, `"${kind}" is no engine kind`, `Use one of ${ENGINE_KINDS.join(", ")}`);
}

function roleOf(role: string | undefined, text: string): Role | undefined {
  const known = ROLES.find((each) => each === role);
  if (role === undefined || known !== undefined) return known;
  throw invalid(text, `"${role}" is no role`, `Use one of ${ROLES.join(", ")}`);
}

function portOf(port: string | undefined, text: string): number | undefined {
  if (port === undefined) return undefined;
  const number = Number(port);
  if (Number.isInteger(number) && number >= 1 && number <= 65_535) return number;
  throw invalid(text, `"${port}" is no port`, "Write bootstrap=PORT, for example bootstrap=8998");
}

function eventsOf(endpoint: string | undefined, replay: string | undefined, text: string): KvSource | undefined {
  if (endpoint === undefined) {
    if (replay === undefined) return undefined;
    throw invalid(text, "it has replay without events", "Add events=tcp://HOST:PORT");
  }
  for (const each of [endpoint, replay]) {
    if (each !== undefined && !/^(tcp:\/\/[^*]+:\d+|ipc:\/\/.+)$/.test(each)) {
      throw invalid(text, `"${each}" is no endpoint to connect to`, "Write tcp://HOST:PORT");
    }
  }
  return {
    type: "events",
    endpoint,
    topic: "",
    dpRank: 0,
    origin: "configuration",
    ...(replay === undefined ? {} : { replay }),
  };
}

function tokenizerOf(from: string | undefined): TokenizerSource {
  if (from === undefined) return {};
  if (from === "bytes") return { bytes: true };
  return from.endsWith(".gguf") ? { gguf: from } : { dir: from };
}
