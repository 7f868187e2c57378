import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { CgnError } from "../../core/errors.ts";
import { type Exchange, type Manners, makeExchange, SGLANG_MANNERS, UVICORN } from "./exchange.ts";
import { failure } from "./llama/llama-errors.ts";
import { LLAMA_MANNERS, llamaRoute } from "./llama/llama-routes.ts";
import { type Route, type RouteTable, SIM_ROUTES } from "./routes.ts";
import { SGLANG_ROUTES, sglangRoute } from "./sglang-routes.ts";
import { type SimDeps, SimEngine } from "./sim-engine.ts";
import type { SimKind, SimOptions } from "./sim-options.ts";
import { vllmError } from "./vllm-bodies.ts";
import { VLLM_ROUTES } from "./vllm-routes.ts";

/** A simulated engine that listens. */
export interface SimServer {
  readonly url: string;
  readonly port: number;
  readonly engine: SimEngine;
  /** What SIGTERM does to this engine; resolves once it may exit. */
  terminate(): Promise<void>;
  /** End at once, connections and all. */
  close(): Promise<void>;
}

/**
 * Start a simulated engine; resolves when it is ready (a vLLM refuses connections until then; an SGLang answers 503).
 * @throws CgnError PORT_IN_USE when the HTTP or an event port is taken
 */
export async function startSim(options: SimOptions, deps: SimDeps): Promise<SimServer> {
  const engine = new SimEngine(options, deps);
  const surface = SURFACES[options.kind];
  const server = createServer((req, res) => void answer(req, res, surface, engine));
  server.keepAliveTimeout = 5_000;
  if (options.kind === "vllm") await loading(options, deps);
  try {
    await engine.open();
    await listen(server, options);
  } catch (e) {
    server.close();
    await engine.closePublishers();
    throw e instanceof CgnError ? e : portInUse(options, e);
  }
  if (options.kind !== "vllm") await loading(options, deps);
  engine.phase = "ready";
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  return {
    url: `http://${host}:${port}`,
    port,
    engine,
    terminate: () => terminate(server, engine),
    async close() {
      engine.freeze();
      server.closeAllConnections();
      await closed(server);
      await engine.closePublishers();
    },
  };
}

/** An engine's HTTP side. */
interface Surface {
  readonly manners: Manners;
  route(method: string, path: string): Route | undefined;
  /** What is answered where there is no route. */
  missing(method: string, path: string): { readonly status: number; readonly body: object };
  unauthorised(): { readonly status: number; readonly body: object };
  failed(message: string): { readonly status: number; readonly body: object };
}

function fastApi(manners: Manners, routes: RouteTable): Surface {
  return {
    manners,
    route: (method, path) => routes[`${method} ${path}`],
    missing(_, path) {
      const elsewhere = Object.keys(routes).some((key) => key.endsWith(` ${path}`));
      return elsewhere
        ? { status: 405, body: { detail: "Method Not Allowed" } }
        : { status: 404, body: { detail: "Not Found" } };
    },
    unauthorised: () => ({ status: 401, body: { error: "Unauthorized" } }),
    failed: (message) => ({ status: 500, body: vllmError(500, "InternalServerError", message) }),
  };
}

const SURFACES: Readonly<Record<SimKind, Surface>> = {
  vllm: fastApi(UVICORN, VLLM_ROUTES),
  sglang: { ...fastApi(SGLANG_MANNERS, SGLANG_ROUTES), route: sglangRoute },
  llama_cpp: {
    manners: LLAMA_MANNERS,
    route: llamaRoute,
    missing: () => failure(404, "File Not Found"),
    unauthorised: () => failure(401, "Invalid API Key"),
    failed: (message) => failure(500, message),
  },
};

async function answer(req: IncomingMessage, res: ServerResponse, surface: Surface, engine: SimEngine): Promise<void> {
  const exchange = makeExchange(req, res, surface.manners);
  const { method, path } = exchange;
  const say = ({ status, body }: { readonly status: number; readonly body: object }): void =>
    exchange.sendJson(status, body);
  if (!path.startsWith("/sim/") && engine.hangs(false)) return;
  if (!authorised(exchange, engine.options)) return say(surface.unauthorised());
  if (engine.options.kind === "llama_cpp" && engine.phase === "loading" && !path.startsWith("/sim/")) {
    return say(failure(503, "Loading model"));
  }
  const route = SIM_ROUTES[`${method} ${path}`] ?? surface.route(method, path);
  if (route === undefined) return say(surface.missing(method, path));
  try {
    await route(exchange, engine);
  } catch (e) {
    const message = e instanceof Error ? e.message : String(e);
    if (res.headersSent) res.destroy();
    else say(surface.failed(message));
  }
}

/** vLLM guards /v1 and not the rest; SGLang and llama-server guard all but health. */
function authorised(exchange: Exchange, options: SimOptions): boolean {
  if (options.apiKeys.length === 0 || exchange.path.startsWith("/sim/")) return true;
  const open =
    options.kind === "vllm"
      ? !exchange.path.startsWith("/v1")
      : /^\/(health|v1\/health|health_generate|ping)$/.test(exchange.path);
  const own = options.kind === "llama_cpp" ? exchange.header("x-api-key") : undefined;
  const key = exchange.header("authorization")?.replace(/^Bearer /, "") ?? own;
  return open || (key !== undefined && options.apiKeys.includes(key));
}

/**
 * SIGTERM as each engine takes it. vLLM with `--shutdown-timeout 0`: idle it ends at once, busy its engine is killed and
 * it hangs until the clients leave. With N: running answers have N seconds, what remains gets an error and `[DONE]`.
 * SGLang: running answers finish.
 */
async function terminate(server: Server, engine: SimEngine): Promise<void> {
  if (engine.options.kind === "llama_cpp") return terminateLlama(server, engine);
  const graceS = engine.options.shutdownTimeoutS;
  engine.phase = "draining";
  if (graceS === 0 && engine.active.size > 0) {
    engine.freeze();
    await closed(server);
  } else {
    if (!(await engine.idle(graceS * 1000))) {
      engine.failAll("EngineCore was shut down while the request was running");
    }
    server.closeIdleConnections();
    await closed(server, engine);
  }
  await engine.closePublishers();
}

/**
 * llama-server: its port closes and its tokens stop at once; streams are cut when the next ping would be due, without an
 * end; whole answers never come, and it waits for their clients to leave.
 */
async function terminateLlama(server: Server, engine: SimEngine): Promise<void> {
  const pingMs = engine.options.llama?.pingMs ?? 0;
  engine.phase = "draining";
  engine.freeze();
  const gone = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const cancel = engine.deps.clock.after(Math.max(0, pingMs), () => engine.cutStreams());
  await gone;
  cancel();
  await engine.closePublishers();
}

/** How long an answer that is written already may take to leave. */
const FLUSH_MS = 1_000;

async function closed(server: Server, engine?: SimEngine): Promise<void> {
  const cancel = engine?.deps.clock.after(FLUSH_MS, () => server.closeAllConnections());
  await new Promise<void>((resolve) => server.close(() => resolve()));
  cancel?.();
}

function loading(options: SimOptions, deps: SimDeps): Promise<void> {
  return new Promise((resolve) => {
    if (options.loadMs <= 0) resolve();
    else deps.clock.after(options.loadMs, resolve);
  });
}

function listen(server: Server, options: SimOptions): Promise<void> {
  // The engines' parsers take any number; Python's socket refuses it, in these words.
  if (options.port < 0 || options.port > 65_535) {
    const message = "Cannot start the simulated engine: bind(): port must be 0-65535";
    throw new CgnError("BAD_INVOCATION", `${message}, and it is ${options.port}`, { port: options.port });
  }
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function portInUse(options: SimOptions, cause: unknown): CgnError {
  const said = cause instanceof Error ? cause.message : String(cause);
  const ports = [`${options.host}:${options.port}`, options.events?.endpoint, options.events?.replay]
    .filter(Boolean)
    .join(", ");
  return new CgnError(
    "PORT_IN_USE",
    `Cannot start the simulated engine: ${said}. Free the port, or choose others (${ports})`,
    {},
    { cause },
  ) as CgnError;
}
