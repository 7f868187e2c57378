import { declaredTooLarge } from "../http/body.ts";
import { type HttpServer, startHttpServer } from "../http/server.ts";
import { accept } from "./accept.ts";
import type { RouterCore } from "./core.ts";
import type { RouterOptions } from "./create-router.ts";
import { answerError } from "./opened-stream.ts";
import { serve } from "./router.ts";
import { startThreadedServer } from "./threads/threaded-server.ts";

/**
 * Listen for clients: in this thread, or in several.
 * @throws CgnError PORT_IN_USE, BAD_INVOCATION
 */
export function openFrontDoor(options: RouterOptions, core: RouterCore): Promise<HttpServer> {
  const { settings, threads, tls, clock } = options;
  const { listenHttp: listen, maxBodyBytes } = settings;
  if (threads !== undefined) {
    const { timeouts, engineTls, directory, log, metrics } = options;
    return startThreadedServer({
      ...{ threads, listen, tls, timeouts, engineTls, maxBodyBytes, directory, clock, log, metrics },
      identifiesFirst: core.access.enabled,
      serve: (exchange) => serve(core, exchange),
    });
  }
  return startHttpServer({
    name: "router",
    listen,
    tls,
    handle: (req, res) => serve(core, accept(req, res, clock.now())),
    refuse(req, res) {
      const error = declaredTooLarge(req, maxBodyBytes);
      if (error === undefined) return false;
      const exchange = accept(req, res, clock.now());
      answerError(exchange, error, { "x-request-id": exchange.id });
      return true;
    },
  });
}
