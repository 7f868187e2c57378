import { readFileSync } from "node:fs";
import { CgnError } from "../core/errors.ts";
import type { EnvValue } from "../core/launch-plan.ts";

/**
 * The environment of a process: this process's own, the plan's over it, secrets read now.
 *
 * @param secrets where a secret that names a variable is looked up
 *
 * `secretFrom` is `env:NAME`, `file:PATH`, an absolute path, or the name of a variable. A file's last newline is not part of it.
 * @throws CgnError CONFIG_INVALID when a secret is not there; the message has its place, never its value
 */
export function resolveEnv(
  base: Readonly<Record<string, string | undefined>>,
  plan: Readonly<Record<string, EnvValue>>,
  secrets: Readonly<Record<string, string | undefined>> = base,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(base)) if (value !== undefined) env[name] = value;
  for (const [name, value] of Object.entries(plan)) {
    env[name] = typeof value === "string" ? value : readSecret(name, value.secretFrom, secrets);
  }
  return env;
}

function readSecret(name: string, from: string, base: Readonly<Record<string, string | undefined>>): string {
  const file = from.startsWith("file:") ? from.slice(5) : from.startsWith("/") ? from : undefined;
  try {
    const secret =
      file === undefined ? base[from.replace(/^env:/, "")] : readFileSync(file, "utf8").replace(/\r?\n$/, "");
    if (secret !== undefined && secret !== "") return secret;
  } catch (cause) {
    throw missing(name, from, "cannot be read", cause);
  }
  throw missing(name, from, "is not set", undefined);
}

function missing(name: string, from: string, what: string, cause: unknown): CgnError {
  const problem = `the secret "${from}" ${what}`;
  const remedy = "Set it, or take the key out of the configuration";
  return new CgnError(
    "CONFIG_INVALID",
    `Cannot set ${name}: ${problem}. ${remedy}`,
    { problems: [{ severity: "error", path: name, problem, remedy }] },
    { cause },
  ) as CgnError;
}
