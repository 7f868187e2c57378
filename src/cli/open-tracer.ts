import type { Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { SpanExporter } from "../telemetry/span-exporter.ts";
import { Tracer } from "../telemetry/tracer.ts";

/**
 * The tracer of `[tracing]`; undefined where no collector is named.
 * @throws CgnError CONFIG_INVALID for an endpoint that is no URL, or headers that are none
 */
export function openTracer(
  { tracing, router, cluster }: Settings,
  deps: { readonly clock: Clock; readonly log: Log; readonly metrics: Metrics },
): Tracer | undefined {
  const { otlpEndpoint: endpoint, sampleRatio, serviceName, headers = "" } = tracing;
  if (endpoint === undefined || endpoint === "") return undefined;
  const exporter = new SpanExporter({
    endpoint,
    headers: readHeaders(headers),
    resource: {
      "service.name": serviceName,
      "service.instance.id": router.nodeId,
      "service.namespace": cluster.name,
    },
    ...deps,
  });
  return new Tracer(sampleRatio, deps.clock, exporter);
}

function readHeaders(text: string): Record<string, string> {
  const pairs = text.split(",").flatMap((part) => {
    const found = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*([^\r\n]*?)\s*$/.exec(part);
    if (found !== null) return [[found[1]!.toLowerCase(), found[2]!] as const];
    if (part.trim() === "") return [];
    const message = "Cannot read tracing.headers: a part is no header. Write name=value, with commas between them";
    throw new CgnError("CONFIG_INVALID", message, { problems: [] });
  });
  return Object.fromEntries(pairs);
}
