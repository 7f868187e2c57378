import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { browserCode } from "./browser-code.ts";
import { PAGE_HTML, PAGE_ICON } from "./page-html.ts";
import { PAGE_STYLE } from "./page-style.ts";

/** One file of the dashboard, ready to be sent. */
export interface PageFile {
  readonly type: string;
  readonly body: Buffer;
  readonly gzip: Buffer;
  readonly etag: string;
}

const SCRIPT = "text/javascript; charset=utf-8";

/** Nothing but what this server has, no inline script or style, in nobody's frame. */
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  // A new version of cgn must not meet scripts of the old one.
  "cache-control": "no-cache",
} as const;

let made: Promise<ReadonlyMap<string, PageFile>> | undefined;

/** All files by their path. Made when the first is asked for, and kept: 200 KB. */
export function pageFiles(): Promise<ReadonlyMap<string, PageFile>> {
  made ??= makeFiles();
  return made;
}

/** The file of a path; undefined: the page has none there. */
export async function pageFile(path: string): Promise<PageFile | undefined> {
  return path === "/" || path.startsWith("/page/") ? (await pageFiles()).get(path) : undefined;
}

/** Answer with a file, or that the browser's copy is still good. */
export function sendPageFile(file: PageFile, req: IncomingMessage, res: ServerResponse): void {
  const zipped = /\bgzip\b/.test(String(req.headers["accept-encoding"] ?? ""));
  const headers = { ...HEADERS, etag: file.etag, vary: "accept-encoding" };
  if (req.headers["if-none-match"] === file.etag) return void res.writeHead(304, headers).end();
  const body = zipped ? file.gzip : file.body;
  res.writeHead(200, {
    ...headers,
    "content-type": file.type,
    "content-length": body.length,
    ...(zipped ? { "content-encoding": "gzip" } : {}),
  });
  res.end(body);
}

async function makeFiles(): Promise<ReadonlyMap<string, PageFile>> {
  const asset = (name: string): string => readFileSync(createRequire(import.meta.url).resolve(name), "utf8");
  const files = new Map<string, PageFile>([
    ["/", fileOf("text/html; charset=utf-8", PAGE_HTML)],
    ["/page/icon.svg", fileOf("image/svg+xml", PAGE_ICON)],
    ["/page/style.css", fileOf("text/css; charset=utf-8", asset("uplot/dist/uPlot.min.css") + PAGE_STYLE)],
    ["/page/lib/uplot.js", fileOf(SCRIPT, asset("uplot/dist/uPlot.iife.min.js"))],
    ["/page/lib/preact.js", fileOf(SCRIPT, asset("preact").replace(/\n?\/\/# sourceMappingURL=.*\s*$/, ""))],
  ]);
  const folder = join(import.meta.dirname, "page");
  for (const name of readdirSync(folder)) {
    // In a clone these are the sources, in the package what tsc made of them.
    if (!/\.[jt]s$/.test(name) || /\.(test|case)\./.test(name)) continue;
    const code = await browserCode(readFileSync(join(folder, name), "utf8"), name.endsWith(".ts"));
    files.set(`/page/${name.replace(/\.ts$/, ".js")}`, fileOf(SCRIPT, code));
  }
  return files;
}

function fileOf(type: string, text: string): PageFile {
  const body = Buffer.from(text);
  const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  return { type, body, gzip: gzipSync(body, { level: 9 }), etag };
}
