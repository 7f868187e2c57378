import type { EnvValue } from "../core/launch-plan.ts";
import { HIDDEN, isSecretName, isSecretVariable } from "../core/secret-names.ts";

/** Quote a word for a POSIX shell, for display only: cgn itself starts nothing through a shell. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `NAME=value`, by itself (`env NAME=value vllm`) or of a flag (`--env=NAME=value`). */
const ASSIGNMENT = /^((?:-{1,2}[A-Za-z][\w-]*=)?([A-Za-z_]\w*)=)(.+)$/s;

/**
 * A command line with secrets hidden: the values of flags that carry them (`--api-key K`, several values too), and variables
 * that are set in it.
 */
export function hideSecrets(argv: readonly string[]): string[] {
  let hiding = false;
  return argv.map((word) => {
    const isFlag = /^-{1,2}[A-Za-z]/.test(word);
    if (!isFlag && hiding) return HIDDEN;
    const [, head = "", variable = "", value = ""] = ASSIGNMENT.exec(word) ?? [];
    const assigns = variable !== "" && isSecretVariable(variable, value);
    if (!isFlag) return assigns ? head + HIDDEN : word;
    const at = word.indexOf("=");
    const name = at < 0 ? word : word.slice(0, at);
    const isSecret = isSecretName(name);
    hiding = isSecret && at < 0;
    if (isSecret && at >= 0) return `${name}=${HIDDEN}`;
    return assigns ? head + HIDDEN : word;
  });
}

/** Variables as they may be printed. One that is read when the process starts says only from where. */
export function hideVariables(env: Readonly<Record<string, EnvValue>>): Record<string, EnvValue> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      typeof value === "string" && isSecretVariable(name, value) ? HIDDEN : value,
    ]),
  );
}
