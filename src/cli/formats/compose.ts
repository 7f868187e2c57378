import { stringify } from "yaml";
import type { EnvValue, LaunchPlan } from "../../core/launch-plan.ts";
import { imageOf } from "./images.ts";
import {
  containerEnv,
  type FormatOptions,
  gpuCount,
  modelPaths,
  type OutputFile,
  type RenderedEngine,
  seconds,
  splitEnv,
  takeSecrets,
} from "./rendered-engine.ts";

/**
 * One Compose file with a service for each engine and each process beside it (Compose specification; read by
 * docker-compose 1.29 too). All use the host's network: the plan's addresses and ports mean there what they mean here, and
 * NIXL reaches the network cards.
 * @throws CgnError BAD_INVOCATION where no image is known
 */
export function composeFiles(engines: readonly RenderedEngine[], options: FormatOptions): OutputFile[] {
  const gpus = gpuDevices(engines);
  const services = Object.fromEntries(
    engines.flatMap((engine, n) => {
      const image = imageOf(engine, options);
      return [
        ...sidecarServices(engine, image, gpus[n] ?? {}),
        [engine.name, engineService(engine, image, gpus[n] ?? {})] as const,
      ];
    }),
  );
  const head = engines.map(comment).join("");
  const text = `${head}${stringify({ services }, { lineWidth: 0, aliasDuplicateObjects: false })}`;
  return [{ path: "compose.yaml", text }, ...engines.flatMap(planFiles)];
}

function comment({ name, plan }: RenderedEngine): string {
  const packages = plan.requires
    .filter(({ what }) => what === "python package")
    .map((r) => `${r.name} ${r.range ?? ""}`);
  const needs = packages.length === 0 ? "" : `; the image must have ${packages.map((p) => p.trim()).join(", ")}`;
  return `# ${name}: ${plan.engine} "${plan.model}", role ${plan.role}, kv_offload ${plan.kvOffload}${needs}\n`;
}

function engineService(engine: RenderedEngine, image: string, gpus: object): object {
  const { name, plan, settings } = engine;
  const beside = plan.sidecars.map((sidecar) => `${name}-${sidecar.name}`);
  const volumes = [
    bind(`\${HF_HOME:-~/.cache/huggingface}`, "/root/.cache/huggingface"),
    ...modelPaths(settings).map((path) => bind(literal(path), literal(path), true)),
    ...plan.files.map((file) => bind(`./${literal(fileName(name, file.path))}`, literal(file.path), true)),
  ];
  return {
    ...common(image, plan.argv, plan.env),
    ...(beside.length > 0 ? { depends_on: beside } : {}),
    stop_grace_period: `${seconds(plan.stop.graceMs)}s`,
    volumes,
    healthcheck: {
      test: ["CMD-SHELL", healthCommand(plan)],
      interval: "10s",
      timeout: "5s",
      retries: 3,
      start_period: `${seconds(plan.ready.timeoutMs)}s`,
    },
    ...gpus,
  };
}

/** In the long form: a path may have a colon in it. */
function bind(source: string, target: string, readOnly = false): object {
  return { type: "bind", source, target, ...(readOnly ? { read_only: true } : {}) };
}

/**
 * What each service asks of the host's GPUs. Engines that were given some by index get these. A single other one gets as many as
 * it computes on, whichever they are; several get indices that are no other's, since Compose counts each service's from the first.
 */
function gpuDevices(engines: readonly RenderedEngine[]): object[] {
  const taken = new Set(engines.flatMap(({ settings }) => settings.slot.gpus ?? []));
  const open = engines.filter((engine) => engine.settings.slot.gpus === undefined && gpuCount(engine) > 0);
  const isAlone = open.length === 1 && taken.size === 0;
  return engines.map((engine) => {
    const count = gpuCount(engine);
    if (count === 0) return {};
    const ids = engine.settings.slot.gpus ?? (isAlone ? undefined : takeFree(taken, count));
    const which = ids === undefined ? { count } : { device_ids: ids.map(String) };
    const device = { driver: "nvidia", capabilities: ["gpu"], ...which };
    return { deploy: { resources: { reservations: { devices: [device] } } } };
  });
}

/** The lowest indices that are nobody's, which they are not any more. */
function takeFree(taken: Set<number>, count: number): number[] {
  const own: number[] = [];
  for (let gpu = 0; own.length < count; gpu++) if (!taken.has(gpu)) own.push(gpu);
  for (const gpu of own) taken.add(gpu);
  return own;
}

function sidecarServices({ name, plan }: RenderedEngine, image: string, gpus: object): [string, object][] {
  return plan.sidecars.map((sidecar) => [
    `${name}-${sidecar.name}`,
    // It shares CUDA memory with the engine, so it must see the same GPUs.
    { ...common(image, sidecar.argv, sidecar.env), ...gpus },
  ]);
}

function common(image: string, argv: readonly string[], env: Readonly<Record<string, EnvValue>>): object {
  const { plain, secret } = splitEnv(containerEnv(env));
  const environment = {
    ...Object.fromEntries(plain.map(([name, value]) => [name, literal(value)])),
    // Taken from the shell or the .env file beside; Compose refuses to start without it.
    ...Object.fromEntries(secret.map(([name, from]) => [name, `\${${name}:?as in ${literal(from)}}`])),
  };
  return {
    image,
    // A secret of the command line is filled in by Compose, from the shell or the .env file beside.
    entrypoint: takeSecrets(argv).map(
      ({ text, secret: name }) => literal(text) + (name === undefined ? "" : `\${${name}:?}`),
    ),
    command: [],
    environment,
    network_mode: "host",
    ipc: "host",
    ulimits: { memlock: -1, nofile: 65_536 },
    restart: "on-failure",
  };
}

function healthCommand({ url, ready }: LaunchPlan): string {
  const post = ready.method === "POST" ? ` -H 'content-type: application/json' -d '${ready.body ?? "{}"}'` : "";
  return literal(`curl -fsS -o /dev/null${post} ${url}${ready.path}`);
}

function planFiles({ name, plan }: RenderedEngine): OutputFile[] {
  return plan.files.map((file) => ({
    path: fileName(name, file.path),
    text: file.content,
    mode: Number.parseInt(file.mode, 8),
  }));
}

const fileName = (name: string, path: string): string => `${name}-${path.split("/").at(-1) ?? "file"}`;

/** Compose replaces `$NAME` everywhere. */
const literal = (text: string): string => text.replaceAll("$", "$$$$");
