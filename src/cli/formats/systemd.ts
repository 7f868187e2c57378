import type { EnvValue, LaunchPlan } from "../../core/launch-plan.ts";
import {
  type OutputFile,
  type RenderedEngine,
  seconds,
  secretArguments,
  splitEnv,
  takeSecrets,
  type Word,
} from "./rendered-engine.ts";

/** Secrets stand in one file an engine, never in a unit: units are readable by everybody. */
const secretFile = (name: string): string => `/etc/cgn/${name}.env`;

/**
 * A unit for each engine (and one for each process beside it), and an environment file to fill in where it has secrets.
 * The keys are those of systemd 247 and newer (systemd.service(5), systemd.exec(5), systemd.kill(5)).
 */
export function systemdFiles(engines: readonly RenderedEngine[]): OutputFile[] {
  return engines.flatMap((engine) => [...sidecarUnits(engine), engineUnit(engine), ...secrets(engine)]);
}

function engineUnit({ name, plan }: RenderedEngine): OutputFile {
  const beside = plan.sidecars.map((sidecar) => `cgn-${name}-${sidecar.name}.service`);
  const lines = [
    "[Unit]",
    `Description=${escapePercent(`${plan.engine} "${plan.model}", role ${plan.role}, kv_offload ${plan.kvOffload} (rendered by cgn)`)}`,
    `After=${["network-online.target", ...beside].join(" ")}`,
    "Wants=network-online.target",
    ...(beside.length > 0 ? [`Requires=${beside.join(" ")}`] : []),
    "StartLimitIntervalSec=600",
    "StartLimitBurst=6",
    "",
    "[Service]",
    "Type=exec",
    ...environment(name, plan.env, plan.argv),
    `ExecStart=/usr/bin/env ${takeSecrets(plan.argv).map(systemdWord).join(" ")}`,
    ...stopLines(plan),
    ...KEEPING,
    "",
    "[Install]",
    "WantedBy=multi-user.target",
  ];
  return { path: `cgn-${name}.service`, text: `${lines.join("\n")}\n` };
}

/** The group gets SIGTERM through the main process, and all that is left of it SIGKILL: engines leave children behind. */
function stopLines({ stop }: LaunchPlan): string[] {
  const wait = stop.secondTermMs === undefined ? undefined : seconds(stop.secondTermMs);
  return [
    // The first SIGTERM comes from here, the second one, which ends this engine, from systemd afterwards.
    ...(wait === undefined ? [] : [`ExecStop=/bin/sh -c 'kill -TERM "$$MAINPID"; sleep ${wait}'`]),
    "KillMode=mixed",
    "KillSignal=SIGTERM",
    `TimeoutStopSec=${seconds(stop.graceMs) + (wait ?? 0)}`,
    "SuccessExitStatus=143",
  ];
}

const KEEPING = [
  "Restart=on-failure",
  "RestartSec=5",
  "LimitNOFILE=65536",
  // NIXL and UCX register memory with the network card.
  "LimitMEMLOCK=infinity",
  // Under memory pressure the engine goes, not its keeper; and all of it.
  "OOMScoreAdjust=300",
  "OOMPolicy=kill",
  "NoNewPrivileges=yes",
];

function sidecarUnits({ name, plan }: RenderedEngine): OutputFile[] {
  return plan.sidecars.map((sidecar) => {
    const lines = [
      "[Unit]",
      `Description=${escapePercent(`${sidecar.name} beside cgn-${name} (rendered by cgn)`)}`,
      `PartOf=cgn-${name}.service`,
      "After=network-online.target",
      "",
      "[Service]",
      "Type=exec",
      ...environment(name, sidecar.env, sidecar.argv),
      `ExecStart=/usr/bin/env ${takeSecrets(sidecar.argv).map(systemdWord).join(" ")}`,
      // The engine is started when this unit is: it must answer by then.
      `ExecStartPost=/bin/sh -c '${waitForPort(sidecar.ready.tcpPort, seconds(sidecar.ready.timeoutMs))}'`,
      `TimeoutStartSec=${seconds(sidecar.ready.timeoutMs) + 5}`,
      "KillMode=mixed",
      ...KEEPING,
    ];
    return { path: `cgn-${name}-${sidecar.name}.service`, text: `${lines.join("\n")}\n` };
  });
}

/** A port in LISTEN (state 0A of /proc/net/tcp), looked at each second: needs no tool besides grep. */
function waitForPort(port: number, timeoutSeconds: number): string {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const look = `grep -qE ":${hex} [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6`;
  return `for i in $$(seq ${timeoutSeconds}); do ${look} && exit 0; sleep 1; done; exit 1`;
}

function environment(name: string, env: Readonly<Record<string, EnvValue>>, argv: readonly string[]): string[] {
  const { plain, secret: ofEnv } = splitEnv(env);
  const secret = [...ofEnv, ...secretArguments(argv)];
  return [
    ...plain.map(([variable, value]) => `Environment=${quoted(escapePercent(`${variable}=${value}`))}`),
    ...secret.map(([variable, from]) => `# ${variable}: from ${from}`),
    // With a dash: may be missing. It is also where PATH for an engine in a Python venv goes.
    `EnvironmentFile=${secret.length > 0 ? "" : "-"}${secretFile(name)}`,
  ];
}

function secrets({ name, plan }: RenderedEngine): OutputFile[] {
  const commands = [plan.argv, ...plan.sidecars.map(({ argv }) => argv)];
  const secret = [...splitEnv(plan.env).secret, ...secretArguments(commands.flat())];
  if (secret.length === 0) return [];
  const lines = secret.map(([variable, from]) => `# as in ${from}\n${variable}=`);
  return [
    { path: `${name}.env`, text: `# Goes to ${secretFile(name)}, mode 0600.\n${lines.join("\n")}\n`, mode: 0o600 },
  ];
}

/** A word of a command line as systemd reads it: specifiers, variables and quotes taken literally. */
export function systemdWord({ text, secret }: Word): string {
  const literal = escapePercent(text).replaceAll("$", "$$$$");
  const plain = /^[\w@+=:,./%$-]*$/.test(literal) && (literal !== "" || secret !== undefined);
  const variable = secret === undefined ? "" : `\${${secret}}`;
  return plain ? `${literal}${variable}` : quoted(`${literal}${variable}`);
}

function quoted(text: string): string {
  const escaped = text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return `"${escaped}"`;
}

const escapePercent = (text: string): string => text.replaceAll("%", "%%").replaceAll("\r", "");
