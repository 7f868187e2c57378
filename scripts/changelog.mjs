// npm run changelog: the change files of changes/ become lines under "unreleased" in CHANGELOG.md, and go. `-- --check` only says what would come
// and whether each file is one; `-- --release VERSION` names what is collected. Plain JavaScript that Node 18 can run.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ROOT } from "./node.mjs";

const WIDTH = 150;
const HEADING = /^## (\S+) \(unreleased\)$/m;

/** A change's text as a list item, broken at `WIDTH`. */
export function asItem(text) {
  const lines = [];
  let line = "-";
  for (const word of text.trim().split(/\s+/)) {
    if (`${line} ${word}`.length > WIDTH) {
      lines.push(line);
      line = " ";
    }
    line += ` ${word}`;
  }
  return [...lines, line].join("\n");
}

/** A change file's items: its list, else all of it. */
export function itemsOf(text) {
  return /^- /.test(text) ? text.split(/^- /m).slice(1) : [text];
}

/** What is wrong with a change file; undefined: nothing. */
export function wrongChange(name, text) {
  if (!/^[a-z0-9][a-z0-9-]*\.md$/.test(name)) return `${name}: name it in small letters with dashes, NAME.md`;
  if (text.trim() === "") return `${name}: it says nothing`;
  if (/^#|^\* /m.test(text)) return `${name}: write sentences, or a list of them with "- ", without headings`;
  if (itemsOf(text).some((item) => !/[.`)]$/.test(item.trim()))) return `${name}: end with a full stop`;
  return undefined;
}

/**
 * The changelog with these changes at the top of its unreleased part.
 * @param changes texts, in the order in which they shall stand
 */
export function collect(changelog, changes) {
  const found = HEADING.exec(changelog);
  if (found === null) throw new Error('CHANGELOG.md has no heading "## VERSION (unreleased)"');
  const head = changelog.slice(0, found.index + found[0].length);
  const rest = changelog.slice(head.length);
  // What stands before the list stays before it.
  const list = rest.indexOf("\n- ");
  const [intro, items] = list < 0 ? [`${rest.trimEnd()}\n`, ""] : [rest.slice(0, list), rest.slice(list)];
  return changes.length === 0
    ? changelog
    : `${head}${intro}\n${changes.map(asItem).join("\n")}${items === "" ? "\n" : items}`;
}

/** The unreleased part gets a version and a day, and a new one begins above it. */
export function release(changelog, version, day) {
  const [whole] = HEADING.exec(changelog) ?? [];
  if (whole === undefined) throw new Error('CHANGELOG.md has no heading "## VERSION (unreleased)"');
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return changelog.replace(whole, `## ${major}.${minor + 1}.0 (unreleased)\n\n## ${version} (${day})`);
}

function main(args) {
  const folder = join(ROOT, "changes");
  const names = readdirSync(folder)
    .filter((name) => name !== "README.md")
    .sort();
  const texts = names.map((name) => readFileSync(join(folder, name), "utf8"));
  const items = texts.flatMap(itemsOf);
  const wrong = names.flatMap((name, n) => wrongChange(name, texts[n]) ?? []);
  for (const line of wrong) console.error(`cgn: changes/${line}`);
  if (wrong.length > 0) return 1;
  if (args.includes("--check")) {
    console.log(items.map(asItem).join("\n"));
    return 0;
  }
  const path = join(ROOT, "CHANGELOG.md");
  let text = collect(readFileSync(path, "utf8"), items);
  const at = args.indexOf("--release");
  if (at >= 0) text = release(text, args[at + 1] ?? "", new Date().toISOString().slice(0, 10));
  writeFileSync(path, text);
  for (const name of names) rmSync(join(folder, name));
  console.log(`${items.length} changes collected`);
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
