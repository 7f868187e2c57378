import { sendJson } from "../http/error-body.ts";
import type { Exchange } from "./accept.ts";
import type { Fleet } from "./fleet.ts";

/**
 * `GET /health` of the front door, as engines answer it, for load balancers that know engines: 200 while some model has a worker that takes
 * requests, or one that is loaded when they come; else 503. It needs no key and says nothing of the fleet.
 */
export function answerHealth(fleet: Fleet, { res, id }: Pick<Exchange, "res" | "id">): void {
  const serves = fleet.models().some((model) => {
    const group = fleet.group(model);
    return group !== undefined && (group.ready.length > 0 || fleet.isLoadable(group));
  });
  const headers = { "x-request-id": id, "cache-control": "no-store" };
  sendJson(res, serves ? 200 : 503, { status: serves ? "ok" : "no engine is ready" }, headers);
}
