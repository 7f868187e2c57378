import { textTable } from "./kv-address.ts";
import type { RouterFigures, RouterStatus, SourceAlarms, TrafficFigures } from "./router-figures.ts";

const plain = (text: string): string => text.replaceAll(/\p{Cc}+/gu, " ");
const percent = (share: number | undefined): string => (share === undefined ? "-" : `${Math.round(share * 100)} %`);
const perS = (rate: number | undefined): string =>
  rate === undefined ? "-" : rate >= 100 ? rate.toFixed(0) : rate.toFixed(1);
const ms = (value: number | undefined): string =>
  value === undefined ? "-" : value < 1_000 ? `${value.toFixed(0)} ms` : `${(value / 1_000).toFixed(1)} s`;

/** What one wants to know at a glance: models, engines, and whatever is worse than it could be. */
export function routerText(status: RouterStatus, figures: RouterFigures): string {
  const parts = [headline(status, figures), "", modelTable(status, figures)];
  if (status.workers.length > 0) parts.push("", workerTable(status, figures));
  const cluster = clusterLine(status);
  if (cluster !== undefined) parts.push("", cluster);
  const shared = sharedThatCount(status.cluster).map(([key, value]) => plain(`${key} = ${value}`));
  if (shared.length > 0) parts.push("", `shared, and wins over files: ${shared.join(", ")}`);
  const troubles = troublesOf(status);
  if (troubles.length > 0) parts.push("", ...troubles.map((text) => `! ${plain(text)}`));
  return parts.join("\n");
}

function headline(status: RouterStatus, { all, connections }: RouterFigures): string {
  const { requestsPerS, generatedPerS, ttftMs } = all;
  return [
    `${plain(status.node)}${status.draining ? " DRAINING" : ""}`,
    `policy ${status.policy}`,
    requestsPerS === undefined ? `${all.requests} requests` : `${perS(requestsPerS)} requests/s`,
    ...(all.failed > 0 ? [`${all.failed} not ok`] : []),
    ...(generatedPerS === undefined ? [] : [`${perS(generatedPerS)} tokens/s`]),
    ...(ttftMs === undefined ? [] : [`TTFT p50 ${ms(ttftMs.p50)} p90 ${ms(ttftMs.p90)}`]),
    `cached ${percent(all.hitReal)} (predicted ${percent(all.hitPredicted)})`,
    `${connections} connections`,
  ].join("  ");
}

function modelTable(status: RouterStatus, figures: RouterFigures): string {
  if (status.models.length === 0) return "no model is served yet";
  const none: TrafficFigures = { requests: 0, failed: 0 };
  const rows = status.models.map((m) => {
    const t = figures.models.get(m.model) ?? none;
    return [
      plain(m.model),
      `${m.ready}/${m.workers}`,
      String(m.running),
      String(m.queued + m.waitingForLoad),
      t.requestsPerS === undefined ? String(t.requests) : `${perS(t.requestsPerS)}/s`,
      String(t.failed),
      ms(t.ttftMs?.p50),
      ms(t.ttftMs?.p90),
      percent(t.hitReal),
      percent(t.hitPredicted),
    ];
  });
  const head = ["MODEL", "READY", "RUNNING", "QUEUED", "REQUESTS", "NOT OK", "TTFT p50", "p90", "CACHED", "PREDICTED"];
  return textTable([head, ...rows]);
}

function workerTable(status: RouterStatus, figures: RouterFigures): string {
  const hasRoles = status.workers.some(({ role = "both" }) => role !== "both");
  const roleOf = (text: string): string[] => (hasRoles ? [text] : []);
  const rows = status.workers.map((w) => {
    const { requests, predictedTokens, reportedTokens } = w.cache;
    const f = figures.workers.get(w.id);
    return [
      plain(w.id),
      w.kind,
      ...roleOf(w.role ?? "both"),
      w.takesRequests ? w.state : `${w.state}*`,
      String(w.load.inFlight),
      String(w.load.queuedTokens),
      f?.requestsPerS === undefined ? String(f?.requests ?? 0) : `${perS(f.requestsPerS)}/s`,
      requests === 0 ? "-" : `${reportedTokens}/${predictedTokens}`,
      w.takesRequests ? "" : short(plain(w.whyNot ?? w.reason)),
    ];
  });
  const head = ["ENGINE", "KIND", ...roleOf("ROLE"), "STATE", "RUNNING", "TO PREFILL", "REQUESTS", "CACHED/PRED.", ""];
  const starred = status.workers.some(({ takesRequests }) => !takesRequests);
  return textTable([head, ...rows]) + (starred ? "\n* takes no requests" : "");
}

/** Settings of all routers, without those that this one leaves out. */
function sharedThatCount(cluster: RouterStatus["cluster"]): readonly (readonly [string, string])[] {
  const left = new Set(cluster?.sharedProblems?.map(({ key }) => key));
  return Object.entries(cluster?.shared ?? {}).filter(([key]) => !left.has(key));
}

/** A reason beside an engine. Of one that is down the whole of it stands below. */
const short = (text: string): string => (text.length <= 60 ? text : `${text.slice(0, 59)}…`);

/** Who is there besides; undefined: this router is alone. */
function clusterLine({ cluster, sources }: RouterStatus): string | undefined {
  if (cluster === undefined || (cluster.source === "memory" && cluster.members.length < 2)) return undefined;
  const count = (kind: string): number => cluster.members.filter((member) => member.kind === kind).length;
  const copies = mirrorsOf(sources);
  const live = copies.filter(({ state }) => state === "live").length;
  return [
    `cluster by ${plain(cluster.source)}`,
    ...["agent", "kvcached", "router"].map((kind) => `${count(kind)} ${kind}s`),
    ...(copies.length === 0 ? [] : [`${live}/${copies.length} copies of indexes live`]),
    ...Object.entries(cluster.marks).map(([node, mark]) => `${plain(node)} ${mark}`),
  ].join("  ");
}

const isList = (sources: RouterStatus["sources"]): sources is readonly SourceAlarms[] => Array.isArray(sources);

const mirrorsOf = (sources: RouterStatus["sources"]) => (isList(sources) ? [] : (sources?.mirrors ?? []));

/** What is wrong with the knowledge of an engine's cache, see docs/alarms.md. */
function alarmsOf(sources: RouterStatus["sources"]): string[] {
  const all = isList(sources) ? sources : (sources?.sources ?? []);
  return all.flatMap(({ worker, alarms = [] }) => alarms.map(({ code, message }) => `${worker}: ${code}: ${message}`));
}

/** Whatever is worse than it could be, with what to do. */
function troublesOf({ models, workers, access, tracing, cluster, sources, federation }: RouterStatus): string[] {
  const limits = access?.rateLimit;
  return [
    ...(cluster?.ok === false
      ? [`${cluster.source} is lost (${cluster.reason ?? ""}): who is known stays known, nobody new is found`]
      : []),
    ...(cluster?.sharedProblems ?? []).map(({ key, problem }) => `shared setting ${key} does not count: ${problem}`),
    ...mirrorsOf(sources).flatMap(({ kvcached, state, reason }) =>
      state === "lost" ? [`kvcached ${kvcached} is lost (${reason ?? ""}): what it told last counts`] : [],
    ),
    ...models.flatMap((m) => (m.problem === undefined ? [] : [`${m.model}: ${m.problem}`])),
    ...models.flatMap((m) => (m.ready === 0 && m.workers > 0 ? [`${m.model}: no engine is ready`] : [])),
    ...workers.flatMap((w) => (w.state === "down" ? [`${w.id} is down: ${w.whyNot ?? w.reason}`] : [])),
    ...alarmsOf(sources),
    ...workers.flatMap(({ id, role, unpaired, pairCaution }) =>
      [unpaired, pairCaution].flatMap((said) => (said === undefined ? [] : [`${id} (${role}): ${said}`])),
    ),
    ...(limits?.state === "lost" ? [`rate limits: ${limits.store} is lost (${limits.onLoss})`] : []),
    ...(access?.keysFile?.problem === undefined ? [] : [`keys file: ${access.keysFile.problem}`]),
    ...(access?.oidc?.problem === undefined ? [] : [`${access.oidc.issuer}: ${access.oidc.problem}`]),
    ...(federation ?? []).flatMap(({ name, up, reason }) => (up ? [] : [`other cluster ${name}: ${reason}`])),
    ...(tracing?.problem === undefined ? [] : [`traces to ${tracing.endpoint}: ${tracing.problem}`]),
  ];
}

/** The same as data, for `--json`. */
export function routerJson(status: RouterStatus, figures: RouterFigures): object {
  return {
    node: status.node,
    draining: status.draining,
    policy: status.policy,
    connections: figures.connections,
    all: figures.all,
    models: status.models.map((m) => ({ ...m, ...figures.models.get(m.model) })),
    engines: status.workers.map((w) => ({ ...w, ...figures.workers.get(w.id) })),
    ...(status.cluster === undefined ? {} : { cluster: status.cluster }),
    troubles: troublesOf(status),
  };
}
