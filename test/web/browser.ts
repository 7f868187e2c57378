import { existsSync } from "node:fs";
import AxeBuilder from "@axe-core/playwright";
import { type Browser, chromium, type Page } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** A busy machine draws late; nothing is asserted of times. */
export const PATIENCE_MS = 120_000;

/** This host's Chromium; undefined: it has none. */
export const findChromium = (): string | undefined => PLACES.find((path) => existsSync(path));

export function launchChromium(executablePath: string): Promise<Browser> {
  // Root has no sandbox, and containers have little shared memory.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
  return chromium.launch({ executablePath, args, timeout: PATIENCE_MS });
}

/** How a page is looked at. */
export interface Look {
  readonly name: string;
  readonly width: number;
  readonly dark: boolean;
}

export const LIGHT: Look = { name: "light", width: 1280, dark: false };
export const DARK: Look = { name: "dark", width: 1280, dark: true };
export const PHONE: Look = { name: "phone", width: 360, dark: false };

/** A page that keeps what went wrong in it: errors of its script, and what its content policy refused. */
export interface WatchedPage {
  readonly page: Page;
  readonly problems: string[];
}

export async function openPage(browser: Browser, { width, dark }: Look): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width, height: width < 500 ? 740 : 860 },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const problems: string[] = [];
  page.on("pageerror", (e) => problems.push(`script: ${e.message}`));
  page.on("console", (m) => {
    // A browser writes each answer that is an error.
    if (m.type() === "error" && !/status of 40[134]/.test(m.text())) problems.push(`console: ${m.text()}`);
  });
  return { page, problems };
}

/** What keeps people out, of serious or critical level. */
export async function barriers(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help} (${nodes.map(({ target }) => target.join(" ")).slice(0, 3)})`);
}

/** What sticks out of its card. Inside of what scrolls, and in charts, anything may. */
export const stickingOut = (page: Page): Promise<string[]> =>
  page.evaluate(() =>
    [...document.querySelectorAll("main .card *")].flatMap((element) => {
      const box = element.getBoundingClientRect();
      const card = element.closest(".card")!.getBoundingClientRect();
      const isFree = element.closest(".scroll, .log, .plot, .hidden, svg") !== null && !element.matches(".scroll");
      if (isFree || box.width === 0 || box.right <= card.right + 1) return [];
      return [`${element.tagName.toLowerCase()}.${element.className} sticks out of its card`];
    }),
  );

/** Does the page itself scroll sideways? Wide tables scroll inside their own box. */
export const isTooWide = (page: Page): Promise<boolean> =>
  page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
