import { z } from "zod";
import { about, duration, flag, listen, optionalText, optionalUrl } from "./schema-fields.ts";

/** `[metrics]`: where figures are served. */
export const metricsSchema = z.strictObject({
  listen: listen(
    "The agent's admin port (metrics too), where `[agent].listen_admin` is not written; kvcached serves `/metrics` on `[kv].listen`",
    "127.0.0.1:9092",
  ),
  scrape_interval: duration("How often engines' metrics are read", 5_000),
  scrape_targets: about(
    z
      .array(
        z.strictObject({
          name: about(z.string().min(1), "Label"),
          url: about(z.string().min(1), "What to read", { unit: "URL" }),
        }),
      )
      .default([]),
    "More Prometheus texts to read",
  ),
  redfish_url: optionalUrl(
    "Redfish service of this host's management controller, whose power the weight `power` counts where GPUs tell none",
    ["https", "http"],
  ),
  redfish_user: optionalText("Its user (HTTP Basic)"),
  redfish_password: optionalText("Its password", { secret: true }),
  ipmi_fallback: flag("Read power by IPMI (original)", false, { unsupported: true }),
});
