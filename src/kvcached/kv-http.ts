import type { Metrics } from "../telemetry/metrics.ts";
import { jsonMatchRoute } from "../wire/json-match.ts";
import type { WireRequest, WireResponse } from "../wire/listen.ts";
import { conductorRoute } from "./conductor.ts";
import type { Kvcached } from "./service.ts";

/** Plain HTTP beside the RPCs, and large `Match` calls in JSON: `POST /query` for other gateways, `GET /metrics` and `GET /healthz` for operators. */
export function kvHttpRoutes(
  service: Kvcached,
  metrics: Metrics | undefined,
): (req: WireRequest, res: WireResponse) => boolean {
  const conductor = conductorRoute(service);
  const jsonMatch = jsonMatchRoute(service);
  return (req, res) => {
    if (conductor(req, res) || jsonMatch(req, res)) return true;
    if (req.method !== "GET") return false;
    if (req.url === "/healthz") {
      answer(res, "text/plain", "ok\n");
      return true;
    }
    if (req.url !== "/metrics" || metrics === undefined) return false;
    void metrics.text().then((text) => answer(res, metrics.contentType, text));
    return true;
  };
}

function answer(res: WireResponse, contentType: string, text: string): void {
  (res as { writeHead(status: number, headers: object): unknown }).writeHead(200, { "content-type": contentType });
  (res as { end(text: string): unknown }).end(text);
}
