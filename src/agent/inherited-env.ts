type Env = Readonly<Record<string, string | undefined>>;

/** What a program needs of anyone's environment to find its files and speak to people. */
const USUAL = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"];

/**
 * What of the agent's environment an engine gets (`[engine].inherit_env`): all of it, the usual few, or those and the named ones. A name
 * may end with `*`.
 */
export function inheritedEnv(env: Env, inherit: boolean | readonly string[]): Env {
  if (inherit === true) return env;
  const names = [...USUAL, ...(inherit === false ? [] : inherit)];
  const matches = (name: string): boolean =>
    names.some((each) => (each.endsWith("*") ? name.startsWith(each.slice(0, -1)) : name === each));
  return Object.fromEntries(Object.entries(env).filter(([name]) => matches(name)));
}
