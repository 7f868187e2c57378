/** The oldest Node that runs cgn: `engines` of package.json, which a test compares. */
export const LEAST_NODE = "22.18";

/** What is wrong with a version of Node; undefined: it fits. */
export function nodeProblem(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor = 0, leastMinor = 0] = LEAST_NODE.split(".").map(Number);
  if (major > leastMajor || (major === leastMajor && minor >= leastMinor)) return undefined;
  return `Cannot run on Node ${version}: cgn needs ${LEAST_NODE} or newer. Install one (https://nodejs.org), or put it first in PATH`;
}

/**
 * End with a sentence where Node is too old, as npm installs it with no more than a warning. To be called before other modules are loaded: they import
 * what an old Node does not have, and it would say only that.
 */
export function requireNode(): void {
  const problem = nodeProblem(process.versions.node);
  if (problem === undefined) return;
  console.error(`cgn: ${problem}`);
  process.exit(9);
}
