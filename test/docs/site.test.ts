import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
// @ts-expect-error: a script without types
import { buildSite } from "../../scripts/docs-site.mjs";

describe("npm run docs:site", () => {
  const out = mkdtempSync(join(tmpdir(), "cgn-site-"));
  const html = () => readdirSync(out).filter((name) => name.endsWith(".html"));
  const text = (name: string): string => readFileSync(join(out, name), "utf8");
  beforeAll(() => buildSite(out));
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  it("makes a page of each page", () => {
    expect(html()).toEqual(expect.arrayContaining(["index.html", "readme.html", "cli.html", "how-routing-works.html"]));
  });

  it("has no dead link and no dead anchor", () => {
    const dead = html().flatMap((name) =>
      [...text(name).matchAll(/(?:href|src)="([^"]+)"/g)].flatMap(([, target = ""]) => {
        if (/^[a-z]+:/.test(target)) return [];
        const [file = "", anchor] = target.split("#");
        const to = file === "" ? name : decodeURI(file);
        if (!existsSync(join(out, to))) return [`${name}: ${target}`];
        const isThere = anchor === undefined || text(to).includes(`id="${decodeURI(anchor)}"`);
        return isThere ? [] : [`${name}: ${target}`];
      }),
    );
    expect(dead).toEqual([]);
  });

  it("loads nothing from elsewhere", () => {
    const loads = html().flatMap((name) => [
      ...text(name).matchAll(/<(?:script|link|img)[^>]*(?:src|href)="([a-z]+:[^"]*)"/g),
    ]);
    expect(loads).toEqual([]);
  });

  it("leaves pictures to be drawn, and the runner's marks out", () => {
    expect(text("how-routing-works.html")).toContain('<pre class="mermaid">flowchart LR');
    expect(html().filter((name) => /class="language-[^"]*(?:serve|no-run)/.test(text(name)))).toEqual([]);
  });
});
