import type { EnvValue } from "../core/launch-plan.ts";
import type { EngineProbe } from "../engines/engine.ts";
import { resolveEnv } from "../process/secret-env.ts";

/**
 * The key that an engine was told to ask of everyone, as its launch shows it: for our own questions to it. A secret: it is
 * neither logged nor announced.
 *
 * @param env what the engine inherits
 * @param secrets where a secret that names a variable is looked up
 *
 * A flag wins over a variable; of several keys the first is taken.
 */
export function engineKey(
  probe: Pick<EngineProbe, "apiKey">,
  plan: { readonly argv: readonly string[]; readonly env: Readonly<Record<string, EnvValue>> },
  env: Readonly<Record<string, string | undefined>>,
  secrets: Readonly<Record<string, string | undefined>> = env,
): string | undefined {
  const { flags = [], variables = [] } = probe.apiKey ?? {};
  return flagValue(plan.argv, flags) ?? variableValue(variables, plan.env, env, secrets);
}

function flagValue(argv: readonly string[], flags: readonly string[]): string | undefined {
  for (const [at, word] of argv.entries()) {
    for (const flag of flags) {
      if (word.startsWith(`${flag}=`)) return word.slice(flag.length + 1) || undefined;
      if (word === flag) return argv[at + 1] || undefined;
    }
  }
  return undefined;
}

function variableValue(
  variables: readonly string[],
  own: Readonly<Record<string, EnvValue>>,
  env: Readonly<Record<string, string | undefined>>,
  secrets: Readonly<Record<string, string | undefined>>,
): string | undefined {
  for (const name of variables) {
    const planned = own[name];
    if (planned === undefined && env[name]) return env[name];
    if (planned === undefined) continue;
    try {
      return resolveEnv(env, { [name]: planned }, secrets)[name] || undefined;
    } catch {
      // A secret that is not there: the start says so.
    }
  }
  return undefined;
}
