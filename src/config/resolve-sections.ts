import { GIB } from "../core/units.ts";
import { isUrl } from "../engines/address.ts";
import { answerSettings } from "./answer-schema.ts";
import { cascadeChains } from "./cascade-schema.ts";
import { SECTIONS, type Section, type SectionName } from "./config-schema.ts";
import { defaultPath } from "./folders.ts";
import { isWritten, type LoadContext, parsePart, report } from "./load-context.ts";
import type {
  AgentSettings,
  ClusterSettings,
  FederationSettings,
  KvSettings,
  MetricsSettings,
  ModelSettings,
  RouterSettings,
  SecuritySettings,
  TracingSettings,
} from "./settings.ts";

/** Every section besides `[engine]`, `[[engines]]` and `[models]`, validated. */
export type Sections = { readonly [N in SectionName]: Section<N> };

/** Validate the sections; all issues are noted. */
export function parseSections(ctx: LoadContext): Sections {
  const parse = <N extends SectionName>(name: N): Section<N> =>
    parsePart(ctx, [name], SECTIONS[name], ctx.layers.tree[name]) as Section<N>;
  return {
    cluster: parse("cluster"),
    router: parse("router"),
    agent: parse("agent"),
    swap: parse("swap"),
    kv: parse("kv"),
    security: parse("security"),
    auth: parse("auth"),
    metrics: parse("metrics"),
    tracing: parse("tracing"),
  };
}

/** Leave out what is undefined, as `exactOptionalPropertyTypes` wants it. */
function given<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

const withScheme = (text: string): string => (/^[a-z]+:\/\//i.test(text) ? text : `http://${text}`);

export function clusterSettings(ctx: LoadContext, cluster: Section<"cluster">): ClusterSettings {
  const { etcd_username: name, etcd_password: password = "" } = cluster;
  const { address: hostAddress } = ctx.host;
  const wrong = cluster.etcd_endpoints.find((text) => !isUrl(withScheme(text), ["http", "https"]));
  if (wrong !== undefined) {
    report(ctx, ["cluster", "etcd_endpoints"], {
      problem: `"${wrong}" is no address of an etcd member`,
      remedy: 'Write for example "https://etcd-1:2379"',
    });
  }
  return {
    name: cluster.name,
    stateBackend: cluster.state_backend ?? (cluster.etcd_endpoints.length > 0 ? "etcd" : "memory"),
    ...given({ advertiseHost: cluster.advertise_host, hostAddress }),
    leaseTtlMs: cluster.lease_ttl,
    ...given({ etcdUser: name === undefined ? undefined : { name, password } }),
    etcdTls: given({ caFile: cluster.etcd_ca_file, certFile: cluster.etcd_cert_file, keyFile: cluster.etcd_key_file }),
    kubernetes: { ...given({ namespace: cluster.kubernetes_namespace }), selector: cluster.kubernetes_selector },
    etcdEndpoints: cluster.etcd_endpoints,
    gossipSeeds: cluster.gossip_seeds,
    ...given({ dataDir: cluster.data_dir, staticFile: cluster.static_file }),
  };
}

/** Keys of `[router.rate_limit]` that switch it on where they are written. */
const RATE_LIMITS = ["rps", "rps_per_subject", "rpm_per_subject", "tpm_per_subject", "concurrent_per_subject"] as const;

export function routerSettings(
  ctx: LoadContext,
  router: Section<"router">,
  swap: Section<"swap">,
  models: readonly ModelSettings[],
): RouterSettings {
  const { admission, rate_limit: rate } = router;
  return {
    listenHttp: router.listen_http,
    listenGrpc: router.listen_grpc,
    listenAdmin: router.listen_admin,
    nodeId: router.node_id ?? ctx.host.hostname,
    workerThreads: router.worker_threads,
    policy: router.policy,
    maxBodyBytes: router.max_body_bytes,
    ...answerSettings(router, models),
    ...given({ requestLog: router.request_log }),
    scoreWeights: router.score_weights,
    admission: given({
      maxQueue: admission.max_queue,
      ttftSloMs: admission.ttft_slo,
      maxConcurrentPerReplica: admission.max_concurrent_per_replica,
      queueTimeoutMs: admission.queue_timeout,
    }),
    loadWait: { timeoutMs: swap.queue_timeout, keepAliveMs: swap.keep_alive },
    rateLimit: {
      enabled: rate.enabled ?? RATE_LIMITS.some((key) => isWritten(ctx, ["router", "rate_limit", key])),
      // A limit of each subject alone does not bring the default one of all together.
      limitsAll: rate.enabled === true || isWritten(ctx, ["router", "rate_limit", "rps"]),
      rps: rate.rps,
      burst: rate.burst,
      onRedisLoss: rate.on_redis_loss,
      ...given({
        rpsPerSubject: rate.rps_per_subject,
        rpmPerSubject: rate.rpm_per_subject,
        tpmPerSubject: rate.tpm_per_subject,
        concurrentPerSubject: rate.concurrent_per_subject,
        redisUrl: rate.redis_url,
      }),
    },
    ...(router.cors.origins.length === 0
      ? {}
      : { cors: { origins: router.cors.origins, headers: router.cors.headers, maxAgeMs: router.cors.max_age } }),
    cascades: cascadeChains(router.cascade, models),
    disagg: {
      splits: router.disagg.enabled !== false,
      colocateBelowTokens: router.disagg.colocate_below_tokens,
      prefillTimeoutMs: router.disagg.prefill_timeout,
    },
    ...given({ federation: federationSettings(ctx, router.federation) }),
  };
}

function federationSettings(
  ctx: LoadContext,
  { enabled, peers, key, max_hops: maxHops, health_interval: healthIntervalMs }: Section<"router">["federation"],
): FederationSettings | undefined {
  if (!enabled) return undefined;
  const urls = peers.map((text) => (/^https?:\/\//.test(text) ? text : `http://${text}`).replace(/\/+$/, ""));
  const wrong = peers.find((_, index) => !URL.canParse(urls[index]!) || new URL(urls[index]!).pathname !== "/");
  if (wrong !== undefined) {
    report(ctx, ["router", "federation", "peers"], {
      problem: `"${wrong}" is no address of a router`,
      remedy: 'Write for example "https://east.example.com:8080"',
    });
    return undefined;
  }
  if (urls.length === 0) {
    report(ctx, ["router", "federation", "enabled"], {
      severity: "warning",
      problem: "no peers are named, so nothing is handed on",
      remedy: "Name the other clusters' routers in [router.federation].peers",
    });
    return undefined;
  }
  return { peers: urls, maxHops, healthIntervalMs, ...given({ key }) };
}

export function agentSettings(ctx: LoadContext, agent: Section<"agent">, kv: Section<"kv">): AgentSettings {
  const stateDir = agent.state_dir ?? defaultPath(ctx.host, "state");
  return {
    listen: agent.listen,
    ...given({ listenGrpc: agent.listen_grpc, listenAdmin: agent.listen_admin, readyProbeUrl: agent.ready_probe_url }),
    nodeId: agent.node_id ?? ctx.host.hostname,
    role: agent.role,
    kvUds: agent.kv_uds ?? kv.uds ?? defaultPath(ctx.host, "runtime", "kv.sock"),
    relay: agent.relay,
    readyTimeoutMs: agent.ready_timeout,
    heartbeatMs: agent.heartbeat,
    drainGraceMs: agent.drain_grace,
    keepEngines: agent.keep_engines,
    logDir: agent.log_dir ?? `${stateDir}/logs`,
    logBounds: { fileBytes: Math.ceil(agent.log_file_mib * 1024 * 1024), files: agent.log_files },
    stallMs: agent.stall_timeout,
    ...given({ oomScoreAdj: agent.oom_score_adj }),
    stateDir,
  };
}

export function kvSettings(ctx: LoadContext, kv: Section<"kv">, agent: Section<"agent">): KvSettings {
  if (kv.index_gib !== undefined && kv.ram_gib !== undefined && kv.index_gib !== kv.ram_gib) {
    report(ctx, ["kv", "ram_gib"], {
      problem: `ram_gib = ${kv.ram_gib} and index_gib = ${kv.index_gib} are the same cap with different values`,
      remedy: "Remove ram_gib",
    });
  }
  const gib = kv.index_gib ?? kv.ram_gib ?? Math.min(32, ctx.host.memoryBytes / GIB / 4);
  return {
    listen: kv.listen,
    uds: kv.uds ?? agent.kv_uds ?? defaultPath(ctx.host, "runtime", "kv.sock"),
    ramBytes: Math.floor(gib * GIB),
    indexDir: kv.index_dir ?? defaultPath(ctx.host, "state", "index"),
    snapshotEveryMs: kv.snapshot_every,
    ...given({ blockSizeTokens: kv.block_size_tokens }),
  };
}

export function securitySettings(ctx: LoadContext, security: Section<"security">): SecuritySettings {
  if ((security.cert_file === undefined) !== (security.key_file === undefined)) {
    const missing = security.cert_file === undefined ? "cert_file" : "key_file";
    const there = missing === "cert_file" ? "key_file" : "cert_file";
    report(ctx, ["security", there], {
      problem: `is written without ${missing}`,
      remedy: `Write [security].${missing} too, or remove both`,
    });
  }
  if (security.require_mtls && security.client_ca_file === undefined && security.ca_file === undefined) {
    report(ctx, ["security", "require_mtls"], {
      problem: "no CA is named that client certificates could be checked against",
      remedy: "Write [security].client_ca_file",
    });
  }
  // Clients are asked for certificates over TLS only: without it these keys protect nothing and look as if they did.
  if (security.cert_file === undefined && security.key_file === undefined) {
    const remedy = "Write [security].cert_file and key_file too, or remove it";
    const problem = "clients are only asked for certificates over TLS, and there is no certificate to serve with";
    if (security.require_mtls) report(ctx, ["security", "require_mtls"], { problem, remedy });
    else if (security.client_ca_file !== undefined) report(ctx, ["security", "client_ca_file"], { problem, remedy });
  }
  return {
    requireMtls: security.require_mtls,
    ...given({
      caFile: security.ca_file,
      certFile: security.cert_file,
      keyFile: security.key_file,
      clientCaFile: security.client_ca_file,
    }),
  };
}

export function metricsSettings(metrics: Section<"metrics">): MetricsSettings {
  const { redfish_url: url, redfish_user: user, redfish_password: password } = metrics;
  return {
    listen: metrics.listen,
    scrapeIntervalMs: metrics.scrape_interval,
    scrapeTargets: metrics.scrape_targets,
    ...given({ redfish: url === undefined || url === "" ? undefined : { url, ...given({ user, password }) } }),
  };
}

export function tracingSettings(tracing: Section<"tracing">, env: string | undefined): TracingSettings {
  return {
    sampleRatio: tracing.sample_ratio,
    serviceName: tracing.service_name,
    ...given({ otlpEndpoint: tracing.otlp_endpoint ?? env, headers: tracing.headers }),
  };
}
