// npm run docs:site: the pages of docs/ and the README as a site in .cache/site, with a menu, a search and drawn pictures; opened as files it
// works too, and it loads nothing from elsewhere. `-- --out DIR` writes it there.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { CACHE, ROOT } from "./node.mjs";
import { setup } from "./setup.mjs";

const SITE = join(ROOT, "scripts", "docs-site");
const MERMAID = join(ROOT, "node_modules", "@mermaid-js", "tiny", "dist", "mermaid.tiny.js");
/** Pages outside docs/, by their name in the site. */
const OUTSIDE = { readme: "README.md", contributing: "CONTRIBUTING.md", changelog: "CHANGELOG.md" };

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

/** As GitHub makes them. */
const anchorOf = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");

/** Where a link of a page goes in the site; what the site has not is shown at its place in the repository. */
function siteLink(target, source) {
  if (/^(?:[a-z]+:|#)/.test(target)) return target;
  const [path, anchor] = target.split("#");
  const file = source.startsWith("docs/") ? join("docs", path) : path;
  const outside = Object.entries(OUTSIDE).find(([, name]) => name === file)?.[0];
  const page = outside ?? /^docs\/([\w-]+)\.md$/.exec(file)?.[1];
  const to = page === undefined ? `files/${file.replaceAll("/", "_")}.txt` : `${page}.html`;
  return anchor === undefined ? to : `${to}#${anchor}`;
}

/** What links of a page lead to that is no page: copied beside. */
const linkedFiles = new Set();

function makeMarkdown(MarkdownIt) {
  const md = new MarkdownIt({ html: true, linkify: false });
  md.core.ruler.push("cgn", ({ tokens, env }) => {
    const seen = new Map();
    tokens.forEach((token, at) => {
      if (token.type === "heading_open") {
        const text = tokens[at + 1].children.map(({ content }) => content).join("");
        const slug = anchorOf(text);
        const count = seen.get(slug) ?? 0;
        seen.set(slug, count + 1);
        token.attrSet("id", count === 0 ? slug : `${slug}-${count}`);
        env.headings.push({ text, id: token.attrGet("id"), level: Number(token.tag[1]) });
      }
      for (const child of token.children ?? []) {
        if (child.type !== "link_open") continue;
        const to = siteLink(child.attrGet("href"), env.source);
        if (to.startsWith("files/")) linkedFiles.add(`${child.attrGet("href").split("#")[0]}\0${env.source}`);
        child.attrSet("href", to);
      }
    });
  });
  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, at, options, env, self) => {
    const token = tokens[at];
    // The test runner's marks are not for readers.
    token.info = token.info.split(/\s/)[0];
    if (token.info === "mermaid") return `<pre class="mermaid">${escaped(token.content)}</pre>\n`;
    return fence(tokens, at, options, env, self);
  };
  md.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
  md.renderer.rules.table_close = () => "</table></div>\n";
  return md;
}

/** The menu: the lines of docs/index.md. */
function menuOf(md) {
  return md.render(readFileSync(join(ROOT, "docs", "index.md"), "utf8").replace(/^# .*\n/, ""), {
    source: "docs/index.md",
    headings: [],
  });
}

export async function buildSite(out) {
  const { default: MarkdownIt } = await import("markdown-it");
  const md = makeMarkdown(MarkdownIt);
  const template = readFileSync(join(SITE, "page.html"), "utf8");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "files"), { recursive: true });
  const docs = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  const sources = { ...Object.fromEntries(docs.map((name) => [name.slice(0, -3), `docs/${name}`])), ...OUTSIDE };
  const menu = menuOf(md);
  const found = [];
  for (const [name, source] of Object.entries(sources)) {
    const env = { source, headings: [] };
    const body = md.render(readFileSync(join(ROOT, source), "utf8"), env);
    const title = env.headings[0]?.text ?? name;
    const fill = { title: escaped(title), menu, body };
    writeFileSync(
      join(out, `${name}.html`),
      template.replaceAll(/\{\{(\w+)\}\}/g, (_, key) => fill[key] ?? ""),
    );
    found.push(
      ...env.headings.map(({ text, id, level }) => ({
        page: title,
        text,
        to: `${name}.html${level === 1 ? "" : `#${id}`}`,
      })),
    );
  }
  for (const linked of linkedFiles) {
    const [path, source] = linked.split("\0");
    const file = source.startsWith("docs/") ? join("docs", path) : path;
    cpSync(join(ROOT, file), join(out, "files", `${file.replaceAll("/", "_")}.txt`));
  }
  writeFileSync(join(out, "headings.js"), `globalThis.HEADINGS = ${JSON.stringify(found)};\n`);
  for (const file of ["site.css", "site.js"]) cpSync(join(SITE, file), join(out, file));
  cpSync(MERMAID, join(out, "mermaid.js"));
  return Object.keys(sources).length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const node = await setup();
  const at = process.argv.indexOf("--out");
  const out = at > 0 ? resolve(process.env.INIT_CWD ?? ".", process.argv[at + 1]) : join(CACHE, "site");
  // The set-up may have brought a newer Node, and the packages.
  if (node !== process.execPath && !process.env.CGN_SITE) {
    const again = spawnSync(node, [process.argv[1], "--out", out], {
      stdio: "inherit",
      env: { ...process.env, CGN_SITE: "1" },
    });
    process.exitCode = again.status ?? 1;
  } else console.log(`${await buildSite(out)} pages in ${out}; open ${join(out, "index.html")}`);
}
