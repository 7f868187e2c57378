import { Agent, request } from "node:http";
import { Sample } from "../../src/sim/replay/sample.ts";
import type { QualityRequest } from "./trace.ts";

/** What clients saw. Milliseconds. */
export interface ClientFigures {
  readonly ok: number;
  readonly failed: number;
  readonly ttftMean: number;
  readonly ttftP99: number;
  /** How late requests were sent, 99 % of them at most. */
  readonly lateP99: number;
  readonly seconds: number;
}

/** Time for connections to be opened before the first request is due. */
const START_MS = 500;
/** A timer is set for waits longer than this. */
const LEAST_WAIT_MS = 1;

/**
 * Send each request at its time, whatever became of those before.
 * @param urlOf where a request goes, asked when it is sent
 */
export async function drive(
  requests: readonly QualityRequest[],
  urlOf: (request: QualityRequest, index: number) => string,
): Promise<ClientFigures> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4096 });
  const ttft = new Sample();
  const late = new Sample();
  const sent: Promise<number | undefined>[] = [];
  const start = performance.now() + START_MS;
  for (const [i, each] of requests.entries()) {
    const due = start + each.at;
    const wait = due - performance.now();
    if (wait > LEAST_WAIT_MS) await new Promise((resolve) => setTimeout(resolve, wait));
    late.add(Math.max(0, performance.now() - due));
    sent.push(send(agent, urlOf(each, i), each));
  }
  const seen = await Promise.all(sent);
  agent.destroy();
  for (const ms of seen) if (ms !== undefined) ttft.add(ms);
  return {
    ok: ttft.length,
    failed: seen.length - ttft.length,
    ttftMean: ttft.mean(),
    ttftP99: ttft.at(0.99),
    lateP99: late.at(0.99),
    seconds: (performance.now() - start) / 1000,
  };
}

/** Body of a request, the same for all routers. */
export function chatBody(
  text: string,
  outputTokens: number,
  more: { readonly user?: string; readonly stream?: boolean } = {},
): string {
  return JSON.stringify({
    model: "m",
    ...(more.stream === true ? { stream: true, stream_options: { include_usage: true } } : {}),
    ...(more.user === undefined ? {} : { user: more.user }),
    max_tokens: outputTokens,
    messages: [{ role: "user", content: text }],
  });
}

/** Milliseconds to the first byte of the answer; undefined: it failed. */
function send(agent: Agent, url: string, { id, text, outputTokens }: QualityRequest): Promise<number | undefined> {
  const body = chatBody(text, outputTokens, { user: id, stream: true });
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  const started = performance.now();
  return new Promise((resolve) => {
    const req = request(`${url}/v1/chat/completions`, { method: "POST", agent, headers }, (res) => {
      let firstMs: number | undefined;
      res.on("data", () => {
        firstMs ??= performance.now() - started;
      });
      res.on("end", () => resolve(res.statusCode === 200 ? firstMs : undefined));
      res.on("error", () => resolve(undefined));
    });
    req.on("error", () => resolve(undefined));
    req.end(body);
  });
}
