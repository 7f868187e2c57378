import type { RequestTrace, Tracer } from "../telemetry/tracer.ts";
import type { Exchange } from "./accept.ts";
import type { DecisionRecord } from "./decisions.ts";
import { findEndpoint } from "./endpoints.ts";

/** Begin the trace of a request, below the caller's span where it names one. */
export function beginTrace(tracer: Tracer, exchange: Exchange): void {
  const { req, path, method } = exchange;
  const { traceparent } = req.headers;
  const header = typeof traceparent === "string" ? traceparent : undefined;
  // Names of spans must be few: paths that nobody serves are anybody's words.
  const endpoint = findEndpoint(path);
  const named = endpoint !== undefined && endpoint.kind !== "other" && !path.startsWith("/v1/models/");
  const name = named ? `${method} ${path}` : method;
  exchange.trace = tracer.begin(name, header, exchange.startedMs);
  exchange.trace.noteRequest({ "http.request.method": method, "url.path": path, "cgn.request_id": exchange.id });
}

/** Figures of the decision and of the answer, on the whole request. */
export function noteTrace(trace: RequestTrace, { attempts, policy, outcome }: DecisionRecord): void {
  if (!trace.sampled) return;
  const last = attempts.at(-1);
  const of = <T>(name: string, value: T | undefined): Record<string, T> =>
    value === undefined ? {} : { [name]: value };
  trace.noteRequest({
    "cgn.policy": policy,
    "cgn.attempts": attempts.length,
    ...of("cgn.worker", last?.worker),
    ...of("cgn.predicted_cached_tokens", last?.predictedCachedTokens),
    ...of("cgn.cached_tokens", outcome?.cachedTokens),
    ...of("cgn.outcome", outcome?.result),
    ...of("cgn.ttft_ms", outcome?.ttftMs),
    ...of("gen_ai.usage.input_tokens", outcome?.promptTokens),
    ...of("gen_ai.usage.output_tokens", outcome?.completionTokens),
  });
}

/** The exchange is over. */
export function endTrace(trace: RequestTrace, { res, subject, left }: Exchange, model: string): void {
  if (!trace.sampled) return;
  const status = res.statusCode;
  trace.noteRequest({
    "cgn.subject": subject.name,
    ...(model === "" ? {} : { "gen_ai.request.model": model }),
    ...(res.headersSent ? { "http.response.status_code": status } : {}),
  });
  trace.end(left ? "the client left" : status >= 500 ? `HTTP ${status}` : undefined);
}
