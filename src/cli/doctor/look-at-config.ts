import { type LoadedConfig, type LoadOptions, throwOnErrors } from "../../config/load.ts";
import type { HostPort } from "../../config/settings.ts";
import { isCgnError, type Problem } from "../../core/errors.ts";
import { findPortHolder, isPortFree } from "../../process/port-holder.ts";
import { checkHost } from "../check-host.ts";
import type { CliContext } from "../command.ts";
import { loadWithVersions } from "../load-config.ts";
import { type Diagnosis, fromProblem } from "./diagnosis.ts";
import type { PortLook } from "./port-findings.ts";

/** The configuration in use, or the defaults, and what `cgn check --host` says of it. */
export interface ConfigLook {
  readonly found: readonly Diagnosis[];
  /** Undefined where it cannot be used. */
  readonly loaded?: LoadedConfig;
}

export async function lookAtConfig(options: LoadOptions, cli: CliContext): Promise<ConfigLook> {
  const area = "configuration";
  try {
    const loaded = await loadWithVersions(options, {}, cli);
    const own = loaded.problems.map(fromProblem);
    const { file } = loaded.settings;
    if (file === undefined) {
      const what = "no file: neither --config, $CGN_CONFIG, ./cgn.toml nor /etc/cognitora/cognitora.toml";
      return { found: [{ area, level: "note", what, mend: "Write one for this host", fix: "cgn init" }], loaded };
    }
    if (own.some(({ level }) => level === "error")) return { found: own, loaded };
    const host = (await checkHost([loaded], cli)).map(fromProblem);
    const all = [...own, ...host];
    return {
      found: all.length > 0 ? all : [{ area, level: "good", what: `${file}: no problem, on this host` }],
      loaded,
    };
  } catch (e) {
    if (!isCgnError(e)) throw e;
    const told = isCgnError(e, "CONFIG_INVALID") ? e.details.problems : [];
    const problems: readonly Problem[] = told.length > 0 ? told : [{ severity: "error", path: "", problem: e.message }];
    return { found: problems.map(fromProblem) };
  }
}

/** Can these settings be started from? */
export function isUsable(loaded: LoadedConfig): boolean {
  try {
    throwOnErrors(loaded);
    return true;
  } catch (e) {
    if (isCgnError(e)) return false;
    throw e;
  }
}

/** The ports that cgn itself listens on with these settings (the engines' are looked at by `checkHost()`). */
export async function lookAtPorts({ settings }: LoadedConfig): Promise<PortLook[]> {
  const wanted: readonly { readonly at: HostPort | undefined; readonly what: string; readonly key: string }[] = [
    { at: settings.router.listenHttp, what: "the endpoint", key: "router.listen_http" },
    { at: settings.router.listenAdmin, what: "the admin port", key: "router.listen_admin" },
    { at: settings.kv.listen, what: "the prefix index", key: "kv.listen" },
  ];
  const looks = wanted.map(async ({ at, what, key }): Promise<PortLook[]> => {
    if (at === undefined || at.port === 0) return [];
    const { host, port } = at;
    if (await isPortFree(host, port)) return [{ port, what, key }];
    const holder = await findPortHolder(port);
    return [{ port, what, key, taken: holder === undefined ? {} : { holder } }];
  });
  return (await Promise.all(looks)).flat();
}
