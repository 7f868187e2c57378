import type { IncomingMessage, ServerResponse } from "node:http";
import { CgnError } from "../core/errors.ts";
import { sendJson } from "../http/error-body.ts";
import type { SharedTuning } from "./shared-tuning.ts";

/** Settings that all routers of a cluster share: GET tells them, POST `?KEY=VALUE&KEY=` changes them (empty: takes one off). */
export const CONFIG_PATH = "/v1/cgn/config";

/** @throws CgnError REQUEST_INVALID, and as `SharedTuning.share()` does */
export async function answerConfig(
  tuning: SharedTuning,
  query: URLSearchParams,
  req: Pick<IncomingMessage, "method">,
  res: ServerResponse,
): Promise<void> {
  if (req.method === "POST") {
    const changes = new Map([...query].map(([key, value]) => [key, value === "" ? undefined : value] as const));
    if (changes.size === 0) {
      const should = "Write for example POST /v1/cgn/config?router.policy=weighted";
      throw new CgnError("REQUEST_INVALID", `Cannot share settings: none is named. ${should}`, {});
    }
    await tuning.share(changes);
  }
  sendJson(res, 200, tuning.status());
}
