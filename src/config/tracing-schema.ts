import { z } from "zod";
import { about, optionalText, optionalUrl } from "./schema-fields.ts";

/** `[tracing]`: OpenTelemetry traces of requests. */
export const tracingSchema = z.strictObject({
  otlp_endpoint: optionalUrl(
    "Collector that takes OTLP over HTTP (JSON), for example `http://127.0.0.1:4318`; `/v1/traces` is added where it has no path",
    ["http", "https"],
    { defaultText: "`$OTEL_EXPORTER_OTLP_ENDPOINT`; without either nothing is traced" },
  ),
  sample_ratio: about(
    z.number().min(0).max(1).default(1),
    "Share of traces that are kept, where the caller's `traceparent` does not say",
    { unit: "share" },
  ),
  service_name: about(z.string().min(1).default("cgn-router"), "Name of the service in traces"),
  headers: optionalText("Headers for the collector, `name=value` with commas between them", { secret: true }),
});
