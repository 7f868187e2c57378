// npm run test:web: every part of the dashboard in light, dark and at phone width, in headless Chromium: looked at by axe, and kept as a
// picture in .cache/screens.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { pageFiles } from "../../src/web/page-files.ts";
import {
  barriers,
  DARK,
  findChromium,
  isTooWide,
  LIGHT,
  type Look,
  launchChromium,
  openPage,
  PHONE,
  stickingOut,
} from "./browser.ts";
import { inventedDay, makeTraffic, type PageFleet, startPageFleet } from "./fleet.ts";

const SCREENS = join(import.meta.dirname, "..", "..", ".cache", "screens");
type Step = (page: Page) => Promise<unknown>;

/** Each part: its hash, and what is done there until what matters is drawn. */
const PARTS: Readonly<Record<string, { readonly hash: string; readonly steps: readonly Step[] }>> = {
  overview: {
    hash: "overview",
    steps: [
      (page) => page.getByRole("button", { name: "Log gpu-3/qwen3-8b" }).click(),
      (page) => page.locator("pre.log").first().waitFor(),
    ],
  },
  requests: { hash: "requests", steps: [(page) => page.locator("tbody a").first().waitFor()] },
  decision: {
    hash: "requests",
    steps: [(page) => page.locator("tbody a").nth(1).click(), (page) => page.locator("tr.chosen").first().waitFor()],
  },
  charts: {
    hash: "charts",
    steps: [(page) => page.getByLabel("24 h").check(), (page) => page.locator("canvas").last().waitFor()],
  },
  prefixes: { hash: "prefixes", steps: [(page) => page.locator("tbody tr").first().waitFor()] },
  knowledge: { hash: "knowledge", steps: [] },
  chat: {
    hash: "chat",
    steps: [
      (page) => page.locator("#chat-text").fill("What is the capital of France?"),
      (page) => page.locator("#chat-text").press("Enter"),
      (page) => page.locator(".route").first().waitFor(),
    ],
  },
  question: {
    hash: "overview",
    steps: [(page) => page.getByRole("button", { name: "Drain gpu-1/qwen3-8b" }).click()],
  },
};

/** @returns what is wrong */
async function lookAtAll(browser: Browser, fleet: PageFleet, look: Look): Promise<string[]> {
  const found: string[] = [];
  const { page, problems } = await openPage(browser, look);
  await page.route("**/v1/cgn/history*", (route) => route.fulfill({ json: inventedDay(Date.now()) }));
  for (const [name, { hash, steps }] of Object.entries(PARTS)) {
    await page.goto(`${fleet.admin}/#/${hash}`);
    await page.locator("main h2, main figure").first().waitFor();
    for (const step of steps) await step(page);
    const at = `${name}, ${look.name}`;
    found.push(...(await barriers(page)).map((barrier) => `${at}: ${barrier}`));
    found.push(...(await stickingOut(page)).map((what) => `${at}: ${what}`));
    if (await isTooWide(page)) found.push(`${at}: the page scrolls sideways`);
    const isDialog = name === "question";
    // A header that sticks would stand in the midst of the picture.
    if (!isDialog) await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: join(SCREENS, `${name}-${look.name}.png`), fullPage: !isDialog });
    console.log(`looked at ${at}`);
    if (isDialog) await page.keyboard.press("Escape");
  }
  if (look === LIGHT) console.log(`first paint after ${Math.round(await firstPaint(page, fleet.admin))} ms`);
  await page.context().close();
  return [...found, ...problems.map((problem) => `${look.name}: ${problem}`)];
}

async function firstPaint(page: Page, admin: string): Promise<number> {
  await page.goto("about:blank");
  await page.goto(`${admin}/`);
  await page.locator("main h2").first().waitFor();
  return page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN);
}

async function main(): Promise<number> {
  const chromium = findChromium();
  if (chromium === undefined) {
    console.error(
      "cgn: there is no Chromium on this host: nothing was looked at. Install it (apt-get install chromium)",
    );
    return process.env["CGN_REQUIRE_TOOLS"] === "1" ? 1 : 0;
  }
  mkdirSync(SCREENS, { recursive: true });
  const fleet = await startPageFleet();
  const browser = await launchChromium(chromium);
  const found: string[] = [];
  try {
    await makeTraffic(fleet);
    for (const look of [LIGHT, DARK, PHONE]) found.push(...(await lookAtAll(browser, fleet, look)));
  } finally {
    await browser.close();
    await fleet.close();
  }
  const bytes = [...(await pageFiles()).values()].reduce((sum, { gzip }) => sum + gzip.length, 0);
  console.log(`the page has ${Math.round(bytes / 1024)} KiB gzipped; pictures are in .cache/screens`);
  for (const line of found) console.error(line);
  console.log(`${found.length} problems`);
  return found.length === 0 ? 0 : 1;
}

process.exitCode = await main();
