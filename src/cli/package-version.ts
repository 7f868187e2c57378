import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PACKAGE_ROOT } from "./places.ts";

interface Package {
  readonly version: string;
  readonly engines: { readonly node: string };
}

const read = (): Package => JSON.parse(readFileSync(join(PACKAGE_ROOT, "package.json"), "utf8")) as Package;

/** The version in package.json. */
export function packageVersion(): string {
  return read().version;
}

/** The oldest Node that runs cgn, of package.json's `engines`: `22.18`. */
export function leastNode(): string {
  return read().engines.node.replace(/^>=\s*/, "");
}
