import type { Finding } from "../../core/findings.ts";
import type { BadVersions, HostNeeds, PackageNeed } from "../../core/host-needs.ts";
import { inRange } from "../../core/version.ts";
import { shellWord } from "./finding-text.ts";
import { gpuFindings } from "./gpu-findings.ts";
import type { HostState, LaunchState } from "./host-state.ts";
import { modelFindings } from "./model-findings.ts";
import { isThere, versionOf } from "./package-versions.ts";
import { diskFindings, fileFindings, portFindings, transferFindings, variableFindings } from "./resource-findings.ts";

/** One launch, what it needs and what was found for it. */
export interface CheckedLaunch {
  /** For messages: the worker's id. */
  readonly name: string;
  readonly needs: HostNeeds;
  readonly state: LaunchState;
}

/**
 * Everything about one launch that can be known from its needs and what was found: program, packages, versions, GPUs, model,
 * ports, files, disks, variables. Pure. Memory is counted over all launches of a host: `sharedFindings()`.
 */
export function launchFindings(launch: CheckedLaunch, host: HostState): Finding[] {
  const program = programFindings(launch);
  return [
    ...program,
    ...missingPrograms(launch),
    ...(program.some(({ severity }) => severity === "error") ? [] : packageFindings(launch)),
    ...versionFindings(launch),
    ...gpuFindings(launch, host),
    ...modelFindings(launch),
    ...portFindings(launch),
    ...fileFindings(launch),
    ...diskFindings(launch),
    ...transferFindings(launch, host),
    ...variableFindings(launch),
  ];
}

function programFindings({ needs, state: { program } }: CheckedLaunch): Finding[] {
  const { program: name, programKeys: keys, install } = needs;
  const remedy = 'Install the engine, or set its "binary" to the full path of the program';
  const find = (what: string, fix: string | undefined, how = remedy): Finding[] => [
    { code: "engine-missing", severity: "error", what, remedy: how, keys, ...(fix === undefined ? {} : { fix }) },
  ];
  // Engines that are not installed by one command are told of in words; and pip brings no program of another name or place.
  const isPip = /^pip install/.test(install);
  const fix = isPip && brings(install, name) ? install : undefined;
  const how = !isPip
    ? `${install[0]?.toUpperCase()}${install.slice(1)}, or set its "binary" to the full path of the program`
    : remedy;
  if (program.pythonMissing !== undefined) {
    const what = `"${program.path}" is run by ${program.pythonMissing}, which is not there (its environment was moved or removed)`;
    return find(what, undefined, how);
  }
  if (program.path !== undefined) return [];
  if (program.unrunnable !== undefined) {
    if (program.looksRunnable === false) {
      return find(`"${program.unrunnable}" is no program`, undefined, 'Set "binary" to the engine\'s program');
    }
    return find(`"${program.unrunnable}" cannot be run by this user`, `chmod +x ${shellWord(program.unrunnable)}`);
  }
  return find(name.includes("/") ? `"${name}" is not there` : `"${name}" is not in PATH`, fix, how);
}

/** Does this pip command put a program of this name into PATH: `vllm`, `mlx_lm.server`? */
const brings = (install: string, program: string): boolean =>
  install.split(/[\s"]+/).some((word, n) => n > 1 && word !== "" && program.replaceAll("_", "-").startsWith(word));

/** Programs that run beside the engine come with one of its packages. */
function missingPrograms({ needs, state }: CheckedLaunch): Finding[] {
  return state.missingPrograms.map((name): Finding => {
    const what = `"${name}" is not there, and the launch starts it beside the engine`;
    const remedy = "Install its package into the engine's own Python, and name the engine by its full path";
    const python = state.program.python;
    const fix =
      python === undefined
        ? `pip install ${shellWord(name)}`
        : pipInstall(python, [name.replace(/^.*\//, "")], state.installer);
    return {
      code: "engine-missing",
      severity: "error",
      what,
      remedy,
      keys: ["engine.kv_offload", ...needs.programKeys],
      fix,
    };
  });
}

/** pip of the engine's own environment; where it has none, what brings or replaces it. */
export function pipInstall(
  python: string,
  requirements: readonly string[],
  installer: LaunchState["installer"] = "pip",
): string {
  const words = (list: readonly string[]): string => list.map(shellWord).join(" ");
  if (installer === "uv") return words(["uv", "pip", "install", "--python", python, ...requirements]);
  const install = words([python, "-m", "pip", "install", ...requirements]);
  return installer === "pip" ? install : `${words([python, "-m", "ensurepip"])} && ${install}`;
}

/** A name that pip takes, with its range. */
const requirement = ({ name, range }: PackageNeed): string => `${name}${(range ?? "").split(" ").join(",")}`;

function packageFindings({ needs, state: { program, packages, installer } }: CheckedLaunch): Finding[] {
  const { python } = program;
  // No Python program: its own start will tell.
  if (python === undefined) return [];
  if (packages === undefined)
    return needs.own === undefined && needs.packages.length === 0 ? [] : [unknown(needs, python)];
  const own =
    needs.own === undefined || isThere(needs.own, packages) ? [] : [missing(needs.own, needs, python, installer)];
  // Without the engine itself this is another Python than the one that is meant.
  if (own.length > 0) return own;
  return needs.packages.flatMap((need): Finding[] => {
    if (!isThere(need, packages)) return [missing(need, needs, python, installer)];
    const version = versionOf(need, packages);
    if (version === undefined || need.range === undefined || inRange(version, need.range)) return [];
    return [
      {
        code: "package-version",
        severity: "warning",
        what: `${need.name} ${version} is installed, and ${need.why} is rendered for ${need.range}`,
        remedy: `Install ${need.name} ${need.range}`,
        keys: ["engine.kv_offload", ...needs.programKeys],
        fix: pipInstall(python, [requirement(need)], installer),
      },
    ];
  });
}

function unknown({ programKeys }: HostNeeds, python: string): Finding {
  return {
    code: "packages-unknown",
    severity: "warning",
    what: `${python} did not tell which packages it has, so that nothing of them was checked`,
    remedy: "Run it by hand to see why, or try again when this host has less to do",
    keys: programKeys,
  };
}

function missing(need: PackageNeed, needs: HostNeeds, python: string, installer: LaunchState["installer"]): Finding {
  const isOwn = need === needs.own;
  return {
    code: "package-missing",
    severity: "error",
    what: `the Python package ${need.name} is not installed in ${python}, and ${isOwn ? "this engine is run by it" : `${need.why} needs it`}`,
    remedy: isOwn ? 'Install it there, or set "binary" to the Python that has it' : "Install it there",
    keys: isOwn ? needs.programKeys : ["engine.kv_offload", ...needs.programKeys],
    fix: pipInstall(python, [requirement(need)], installer),
  };
}

function versionFindings({ needs, state: { program, packages, installer } }: CheckedLaunch): Finding[] {
  if (packages === undefined) return [];
  const all = [...(needs.own === undefined ? [] : [needs.own]), ...needs.packages];
  const versions = new Map(all.flatMap((need) => [[need.name, versionOf(need, packages)]] as const));
  const applies = ({ packages: ranges }: BadVersions): boolean =>
    Object.entries(ranges).every(([name, range]) => {
      const version = versions.get(name);
      return version !== undefined && inRange(version, range);
    });
  return needs.badVersions.filter(applies).map((bad): Finding => {
    const pair = Object.keys(bad.packages).map((name) => `${name} ${versions.get(name)}`);
    return {
      code: "bad-versions",
      severity: bad.severity,
      what: `${pair.join(" with ")} ${bad.what}`,
      remedy: bad.remedy,
      keys: ["engine.kv_offload", ...needs.programKeys],
      ...(bad.install === undefined || program.python === undefined
        ? {}
        : { fix: pipInstall(program.python, bad.install, installer) }),
    };
  });
}
