import { stringify } from "yaml";
import type { EnvValue, LaunchPlan } from "../../core/launch-plan.ts";
import { isLoopbackHost, isWildcardHost } from "../../engines/address.ts";
import { imageOf } from "./images.ts";
import {
  containerEnv,
  type FormatOptions,
  gpuCount,
  modelPaths,
  type OutputFile,
  type RenderedEngine,
  seconds,
  secretArguments,
  splitEnv,
  takeSecrets,
} from "./rendered-engine.ts";

/** How often the kubelet looks, in seconds. */
const PROBE_PERIOD = 10;

/**
 * A Deployment of one pod for each engine, with a Service where the engine listens beyond loopback, a ConfigMap for files
 * and the names of the Secrets it reads (Kubernetes API 1.30 and newer).
 *
 * An engine that listens on every address has the pod's own network. Any other uses the node's, as the agent on that node does:
 * a pod has no such address to bind.
 * @throws CgnError BAD_INVOCATION where no image is known
 */
export function k8sFiles(engines: readonly RenderedEngine[], options: FormatOptions): OutputFile[] {
  const documents = engines.flatMap((engine) => [
    ...configMap(engine),
    deployment(engine, imageOf(engine, options)),
    ...service(engine),
  ]);
  const text = documents
    .map((document) => stringify(document, { lineWidth: 0, aliasDuplicateObjects: false }))
    .join("---\n");
  return [{ path: "engines.yaml", text }];
}

const labels = (name: string): object => ({ "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "cgn" });
const metadata = (name: string, { plan }: RenderedEngine): object => ({
  name,
  labels: labels(name),
  annotations: {
    "cgn/engine": plan.engine,
    "cgn/model": plan.model,
    "cgn/role": plan.role,
    "cgn/kv-offload": plan.kvOffload,
  },
});

/** Listens on loopback or on an address of the node: the node's network it is. */
const onNodeNetwork = ({ settings }: RenderedEngine): boolean => !isWildcardHost(settings.slot.host);

/** Where the kubelet finds an engine on the node's network. */
const probeHost = (host: string): string => (host === "localhost" ? "127.0.0.1" : host);

function deployment(engine: RenderedEngine, image: string): object {
  const { name, plan } = engine;
  const host = onNodeNetwork(engine);
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: metadata(name, engine),
    spec: {
      replicas: 1,
      // The old pod's GPUs and ports must be free before the new one can start.
      strategy: { type: "Recreate" },
      selector: { matchLabels: labels(name) },
      template: {
        metadata: { labels: labels(name) },
        spec: {
          ...(host ? { hostNetwork: true, dnsPolicy: "ClusterFirstWithHostNet" } : {}),
          terminationGracePeriodSeconds: seconds(plan.stop.graceMs) + 5,
          ...(plan.sidecars.length > 0 && gpuCount(engine) > 0 ? { hostIPC: true } : {}),
          ...sidecars(engine, image),
          containers: [engineContainer(engine, image, host)],
          volumes: volumes(engine),
        },
      },
    },
  };
}

function engineContainer(engine: RenderedEngine, image: string, host: boolean): object {
  const { plan, settings } = engine;
  const gpus = gpuCount(engine);
  return {
    name: "engine",
    ...container(engine, image, plan.argv, plan.env),
    // On the node's network every port would have to be free on the node: only what is asked from outside is declared.
    ports: plan.ports
      .filter(({ name }) => !host || name === "http")
      .flatMap(({ name, port, count = 1 }) =>
        Array.from({ length: count }, (_, i) => ({
          name: portName(name, count > 1 ? i : undefined),
          containerPort: port + i,
        })),
      ),
    ...probes(plan, host ? probeHost(settings.slot.host) : undefined),
    ...(gpus > 0 ? { resources: { limits: { "nvidia.com/gpu": gpus } } } : {}),
    volumeMounts: mounts(engine),
  };
}

/** At most 15 characters, letters, digits and single dashes (IANA_SVC_NAME). */
function portName(name: string, rank?: number): string {
  const suffix = rank === undefined ? "" : `-${rank}`;
  return `${name.slice(0, 15 - suffix.length).replace(/-+$/, "")}${suffix}`;
}

/** A probe by GET; one that must POST runs curl in the container. */
function probes({ url, ready }: LaunchPlan, host: string | undefined): object {
  const { port } = new URL(url);
  const look =
    ready.method === "POST"
      ? {
          exec: {
            command: [
              ...["curl", "-fsS", "-o", "/dev/null", "-H", "content-type: application/json"],
              ...["-d", ready.body ?? "{}", `${url}${ready.path}`],
            ].map(literal),
          },
        }
      : { httpGet: { path: ready.path, port: Number(port), ...(host === undefined ? {} : { host }) } };
  const probe = (failureThreshold: number): object => ({
    ...look,
    periodSeconds: PROBE_PERIOD,
    timeoutSeconds: 5,
    failureThreshold,
  });
  return {
    startupProbe: probe(Math.max(3, Math.ceil(ready.timeoutMs / 1000 / PROBE_PERIOD))),
    readinessProbe: probe(1),
    livenessProbe: probe(6),
  };
}

/** Native sidecars (Kubernetes 1.29): started before the engine, ended after it. */
function sidecars(engine: RenderedEngine, image: string): object {
  const { plan } = engine;
  if (plan.sidecars.length === 0) return {};
  // Sees the engine's GPUs without counting as another user of them.
  const env = gpuCount(engine) > 0 ? { NVIDIA_VISIBLE_DEVICES: "all" } : {};
  return {
    initContainers: plan.sidecars.map((sidecar) => ({
      name: sidecar.name,
      ...container(engine, image, sidecar.argv, { ...sidecar.env, ...env }),
      restartPolicy: "Always",
      startupProbe: {
        exec: { command: ["python3", "-c", connectTo(sidecar.ready.tcpPort)] },
        periodSeconds: 2,
        failureThreshold: Math.max(3, Math.ceil(sidecar.ready.timeoutMs / 2000)),
      },
      volumeMounts: mounts(engine),
    })),
  };
}

/** The server listens on loopback, where a tcpSocket probe of the kubelet does not reach. */
const connectTo = (port: number): string => `import socket; socket.create_connection(("127.0.0.1", ${port}), 2)`;

function container(
  { name, settings }: RenderedEngine,
  image: string,
  argv: readonly string[],
  env: Readonly<Record<string, EnvValue>>,
): object {
  const { plain, secret: ofEnv } = splitEnv(containerEnv(env));
  const secret = [...ofEnv, ...secretArguments(argv)];
  const { peerAddress, host } = settings.slot;
  const value = (text: string): object =>
    text === peerAddress && text !== host && !isLoopbackHost(text)
      ? { valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }
      : { value: literal(text) };
  return {
    image,
    command: takeSecrets(argv).map(({ text, secret: key }) => literal(text) + (key === undefined ? "" : `$(${key})`)),
    env: [
      ...plain.map(([variable, text]) => ({ name: variable, ...value(text) })),
      ...secret.map(([variable]) => ({
        name: variable,
        valueFrom: { secretKeyRef: { name: `${name}-secrets`, key: variable } },
      })),
    ],
  };
}

/** Kubernetes replaces `$(NAME)` in commands, values and the commands of probes, and reads `$$` as one dollar (kubernetes, expansion.Expand()). */
const literal = (text: string): string => text.replaceAll("$", "$$$$");

function volumes(engine: RenderedEngine): object[] {
  const { name, plan, settings } = engine;
  return [
    // NCCL and NIXL want more than the 64 MiB that a container has.
    { name: "shm", emptyDir: { medium: "Memory" } },
    ...modelPaths(settings).map((path, n) => ({ name: `model-${n}`, hostPath: { path } })),
    ...(plan.files.length > 0 ? [{ name: "files", configMap: { name: `${name}-files` } }] : []),
  ];
}

function mounts({ plan, settings }: RenderedEngine): object[] {
  return [
    { name: "shm", mountPath: "/dev/shm" },
    ...modelPaths(settings).map((path, n) => ({ name: `model-${n}`, mountPath: path, readOnly: true })),
    ...plan.files.map(({ path }) => ({ name: "files", mountPath: path, subPath: fileKey(path), readOnly: true })),
  ];
}

const fileKey = (path: string): string => path.split("/").at(-1) ?? "file";

function configMap(engine: RenderedEngine): object[] {
  const { name, plan } = engine;
  if (plan.files.length === 0) return [];
  const data = Object.fromEntries(plan.files.map(({ path, content }) => [fileKey(path), content]));
  return [{ apiVersion: "v1", kind: "ConfigMap", metadata: metadata(`${name}-files`, engine), data }];
}

function service(engine: RenderedEngine): object[] {
  const { name, plan } = engine;
  if (onNodeNetwork(engine)) return [];
  const port = Number(new URL(plan.url).port);
  const spec = { selector: labels(name), ports: [{ name: "http", port, targetPort: "http" }] };
  return [{ apiVersion: "v1", kind: "Service", metadata: metadata(name, engine), spec }];
}
