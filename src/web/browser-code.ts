/** Where browsers find the library that the page's modules import by name. */
const PREACT = "/page/lib/preact.js";

/**
 * A module of the page as browsers take it: without types, with imports that are URLs.
 * @param typed it is TypeScript
 */
export async function browserCode(source: string, typed: boolean): Promise<string> {
  const plain = typed ? await withoutTypes(source) : source;
  return plain
    .replaceAll(/^((?:import|export) .*?from |\} from )"preact";$/gm, `$1"${PREACT}";`)
    .replaceAll(/^((?:import|export) .*?from |\} from |import )"(\.\/[\w-]+)\.ts";$/gm, '$1"$2.js";');
}

/** Only in a clone: the package has JavaScript. Blanks stay where types were; they vanish in compression. */
async function withoutTypes(source: string): Promise<string> {
  const { stripTypeScriptTypes } = await import("node:module");
  const { emitWarning } = process;
  // It says that it is experimental, which whoever looks at a dashboard cannot change.
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}
