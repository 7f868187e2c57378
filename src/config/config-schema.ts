import { z } from "zod";
import type { Engine } from "../engines/engine.ts";
import { agentSchema } from "./agent-schema.ts";
import { clusterSchema } from "./cluster-schema.ts";
import { engineSchema } from "./engine-schema.ts";
import { kvSchema } from "./kv-schema.ts";
import { metricsSchema } from "./metrics-schema.ts";
import { modelSchema } from "./model-schema.ts";
import { routerSchema } from "./router-schema.ts";
import { about } from "./schema-fields.ts";
import { authSchema, securitySchema } from "./security-schema.ts";
import { swapSchema } from "./swap-schema.ts";
import { tracingSchema } from "./tracing-schema.ts";

const built = new WeakMap<readonly Engine[], ReturnType<typeof buildSchema>>();

/** The whole file: every key that cgn reads. Engines bring the sections below `[engine]`. Made once for a list of engines. */
export function configSchema(engines: readonly Engine[]): ReturnType<typeof buildSchema> {
  const known = built.get(engines) ?? buildSchema(engines);
  built.set(engines, known);
  return known;
}

function buildSchema(engines: readonly Engine[]) {
  const engine = engineSchema(engines);
  return z.strictObject({
    cluster: about(clusterSchema.optional(), "Which hosts belong together"),
    router: about(routerSchema.optional(), "The OpenAI-compatible front door"),
    agent: about(agentSchema.optional(), "What starts engines on this host and watches over them"),
    engine: about(engine.optional(), "The engine of this host; with `[[engines]]`, what its entries have in common"),
    engines: about(
      z.array(engine).optional(),
      "Several engines on this host, one entry each. Keys are those of `[engine]`",
    ),
    swap: about(swapSchema.optional(), "Models that are loaded when requests wait for them, and take turns"),
    kv: about(kvSchema.optional(), "cgn-kvcached, the prefix index"),
    security: about(securitySchema.optional(), "TLS"),
    auth: about(authSchema.optional(), "Who may send requests"),
    metrics: about(metricsSchema.optional(), "Where figures are served"),
    tracing: about(tracingSchema.optional(), "Traces of requests, for OpenTelemetry"),
    models: about(z.record(z.string(), modelSchema).optional(), 'Models, one table each: `[models."NAME"]`'),
  });
}

/** Sections that do not depend on engines, by name. */
export const SECTIONS = {
  cluster: clusterSchema,
  router: routerSchema,
  agent: agentSchema,
  swap: swapSchema,
  kv: kvSchema,
  security: securitySchema,
  auth: authSchema,
  metrics: metricsSchema,
  tracing: tracingSchema,
} as const;

export type SectionName = keyof typeof SECTIONS;
export type Section<N extends SectionName> = z.infer<(typeof SECTIONS)[N]>;
