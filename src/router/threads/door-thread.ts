import { monitorEventLoopDelay } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";
import { Agent, buildConnector, setGlobalDispatcher } from "undici";
import type { Clock } from "../../core/clock.ts";
import { declaredTooLarge } from "../../http/body.ts";
import { type HttpServer, startHttpServer } from "../../http/server.ts";
import { DEFAULT_TIMEOUTS, Upstreams } from "../../http/upstream.ts";
import { accept } from "../accept.ts";
import { noFacts } from "../answer.ts";
import { Fleet } from "../fleet.ts";
import { createModelTemplates } from "../model-templates.ts";
import { answerError } from "../opened-stream.ts";
import { type DoorParts, LocalRequest } from "./local-request.ts";
import { Outbox } from "./outbox.ts";
import type { DoorSettings, FromDoor, ToDoor } from "./protocol.ts";
import { remoteLog } from "./remote-log.ts";
import { sentError } from "./sent-error.ts";
import { ToldDirectory, ToldTls } from "./told.ts";

/** How often a thread tells of its connections where they changed, and of its event loop. */
const FIGURES_MS = 250;
const DELAY_MS = 2_000;
const RESOLUTION_MS = 20;

/** The thread's entry: started by `ThreadedServer`. */
const settings = workerData as DoorSettings;
const port = parentPort!;
const out = new Outbox<FromDoor>({ postMessage: (message, transfer) => port.postMessage(message, transfer) });
const clock = sharedClock(settings.clockMs);
const log = remoteLog((message) => out.post(message));
const directory = new ToldDirectory(settings.workers);
let { engineTls } = settings.secrets;
const upstreams = new Upstreams(
  settings.timeouts ?? DEFAULT_TIMEOUTS,
  engineTls === undefined ? undefined : () => engineTls ?? {},
);
const tls = new ToldTls(settings.secrets.tls, (why, from) => out.post({ t: "refusedTls", why, from }));
const requests = new Map<number, LocalRequest>();
const parts: DoorParts = {
  out,
  fleet: new Fleet(directory, ({ url }) => upstreams.forget(url)),
  renderers: createModelTemplates({ env: settings.env, clock, log }),
  upstreams,
  clock,
  log,
  maxBodyBytes: settings.maxBodyBytes,
  identifiesFirst: settings.identifiesFirst,
};
let http: HttpServer | undefined;
let ids = 0;

// Engines are asked for their templates by what `fetch()` uses.
if (engineTls !== undefined) {
  const connectOf = (): buildConnector.connector =>
    buildConnector({ timeout: 10_000, allowH2: false, ...engineTls } as buildConnector.BuildOptions);
  setGlobalDispatcher(new Agent({ allowH2: false, connect: (target, done) => connectOf()(target, done) }));
}

function take(message: ToDoor): void {
  switch (message.t) {
    case "workers":
      directory.set(message.workers);
      return;
    case "tls":
      if (message.tls !== undefined) tls.set(message.tls);
      engineTls = message.engineTls;
      return;
    case "duck":
      http?.lameDuck();
      return;
    case "close":
      void (http?.close(message.graceMs) ?? Promise.resolve()).then(() => {
        out.post({ t: "closed" });
        out.flush();
      });
      return;
    default:
      takeOf(message);
  }
}

/** A fault with one request ends that one, not the thread. */
function takeOf(message: ToDoor & { readonly id: number }): void {
  const { id } = message;
  const request = requests.get(id);
  try {
    request?.take(message);
  } catch (e) {
    log.error("A request met a fault of the router", { said: String(e), stack: e instanceof Error ? e.stack : "" });
    request?.cut();
  }
  if (request !== undefined || message.t !== "leg") return;
  // Its client left as the order was on its way.
  const answer = { headersSent: false, writableEnded: false, statusCode: 200 };
  out.post({ t: "ended", id, leg: message.leg, end: { ok: { end: { type: "left" }, facts: noFacts(), answer } } });
}

async function open(): Promise<void> {
  try {
    http = await startHttpServer({
      name: "router",
      listen: settings.listen,
      shared: true,
      tls: settings.secrets.tls === undefined ? undefined : tls,
      handle(req, res) {
        const id = ++ids;
        const request = new LocalRequest(id, parts, req, res, () => void requests.delete(id));
        requests.set(id, request);
        return request.begin();
      },
      refuse(req, res) {
        const error = declaredTooLarge(req, settings.maxBodyBytes);
        if (error === undefined) return false;
        const exchange = accept(req, res, clock.now());
        answerError(exchange, error, { "x-request-id": exchange.id });
        return true;
      },
    });
    out.post({ t: "listening", ...http.address });
    tellFigures(http);
  } catch (e) {
    out.post({ t: "failed", error: sentError(e) });
  }
}

function tellFigures(server: HttpServer): void {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  let told = 0;
  let sinceMs = 0;
  let delayS = 0;
  setInterval(() => {
    sinceMs += FIGURES_MS;
    const connections = server.connections();
    const isTime = sinceMs >= DELAY_MS;
    if (!isTime && connections === told) return;
    if (isTime) {
      // A timer of its own is what it measures by.
      delayS = Math.max(0, delay.percentile(99) / 1e9 - RESOLUTION_MS / 1e3);
      delay.reset();
      sinceMs = 0;
    }
    told = connections;
    out.post({ t: "figures", connections, delayS });
  }, FIGURES_MS);
}

/** The main thread's clock: that of this thread began later. */
function sharedClock(clockMs: number): Clock {
  const aheadMs = clockMs + Number(process.hrtime.bigint()) / 1e6 - performance.now();
  return {
    now: () => performance.now() + aheadMs,
    wall: () => Date.now(),
    after(ms, fn) {
      const timer = setTimeout(fn, ms);
      return () => clearTimeout(timer);
    },
  };
}

port.on("message", (messages: readonly ToDoor[]) => {
  for (const message of messages) take(message);
});
void open();
