import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openAccess } from "../../src/access/access.ts";
import { hashApiKey, newApiKey } from "../../src/access/api-key.ts";
import { parseKeyLines } from "../../src/access/key-lines.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { realClock } from "../../src/router/testing/test-router.ts";
import { pageFiles } from "../../src/web/page-files.ts";
import {
  barriers,
  findChromium,
  isTooWide,
  LIGHT,
  launchChromium,
  openPage,
  PATIENCE_MS,
  PHONE,
  stickingOut,
} from "./browser.ts";
import { makeTraffic, type PageFleet, startPageFleet } from "./fleet.ts";

const chromium = findChromium();

it("the dashboard stays under 150 KB gzipped", async () => {
  const files = [...(await pageFiles()).values()];
  expect(files.length).toBeGreaterThan(10);
  expect(files.reduce((sum, { gzip }) => sum + gzip.length, 0)).toBeLessThan(150_000);
});

it.runIf(process.env["CGN_REQUIRE_TOOLS"] === "1")("Chromium is there", () => expect(chromium).toBeDefined());

/** The quick form of `npm run test:web`. Without Chromium it is skipped. */
describe.skipIf(chromium === undefined)("the dashboard in a browser", { timeout: PATIENCE_MS * 2 }, () => {
  let browser: Browser;
  let fleet: PageFleet;
  beforeAll(async () => {
    browser = await launchChromium(chromium!);
    fleet = await startPageFleet();
    await makeTraffic(fleet);
  }, PATIENCE_MS);
  afterAll(async () => {
    await browser?.close();
    await fleet?.close();
  }, PATIENCE_MS);

  it("shows engines in every state and the alarm, on a phone too, and keeps nobody out", async () => {
    const { page, problems } = await openPage(browser, PHONE);
    await page.goto(fleet.admin);
    const engine = (id: string) => page.getByRole("article", { name: `Engine ${id}` });
    await engine("gpu-3/qwen3-8b").getByText("Loading for 48 s").waitFor();
    await engine("gpu-4/qwen3-8b").getByText("down", { exact: true }).waitFor();
    await engine("gpu-5/qwen3-8b").getByText("draining", { exact: true }).waitFor();
    await page.getByText("TOKENIZER_MISMATCH").first().waitFor();
    expect(await isTooWide(page)).toBe(false);
    expect(await stickingOut(page)).toEqual([]);
    expect(await barriers(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  it("chats, and leads from the turn to its decision, by keys alone", async () => {
    const { page, problems } = await openPage(browser, LIGHT);
    await page.goto(`${fleet.admin}/#/chat`);
    await page.locator("#chat-text").focus();
    await page.keyboard.type("What is the capital of France?");
    await page.keyboard.press("Enter");
    await page.locator(".turn.assistant").getByText("The capital of France is Paris.").waitFor();
    await page.getByText("answered by gpu-").waitFor();
    await page.getByRole("link", { name: "why there" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /^Chosen: gpu-/ }).waitFor();
    expect(await barriers(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  // The focus fell to the body, and each of forty marks was a stop of the Tab key.
  it("keeps the focus of those who go by keys", async () => {
    const { page } = await openPage(browser, LIGHT);
    const focused = () =>
      page.evaluate(() => `${document.activeElement?.tagName} ${document.activeElement?.id}`.trim());
    await page.goto(fleet.admin);
    const lane = page.locator(".marks").first();
    await lane.locator("a").nth(1).waitFor();
    expect(await page.locator('.marks a[tabindex="0"]').count()).toBe(await page.locator(".marks").count());
    await lane.locator("a").first().focus();
    await page.keyboard.press("ArrowRight");
    const href = await lane.locator("a:focus").getAttribute("href");
    expect(href).toBe(await lane.locator("a").nth(1).getAttribute("href"));
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /^Chosen: gpu-/ }).waitFor();
    expect(await focused()).toBe("MAIN main");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Last requests" }).waitFor();
    await page.locator(`a[href="${href}"]:focus`).waitFor();
    await page.context().close();
  });

  it("asks before it drains, and loads what is unloaded", async () => {
    const { page } = await openPage(browser, LIGHT);
    await page.goto(fleet.admin);
    const drain = page.getByRole("button", { name: "Drain gpu-2/qwen3-8b" });
    await drain.click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await drain.click();
    await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
    const card = page.getByRole("article", { name: "Engine gpu-2/qwen3-8b" });
    await card.getByText("draining", { exact: true }).waitFor();
    // The button that had the focus is gone: what stands in its place has it.
    await card.locator(":focus").waitFor();
    await page.getByRole("button", { name: "Uncordon gpu-2/qwen3-8b" }).press("Enter");
    await page.getByRole("button", { name: "Drain gpu-2/qwen3-8b" }).waitFor();
    await card.locator(":focus").waitFor();
    await page.getByRole("button", { name: /^Load gpu-6/ }).click();
    await page.getByText("is being loaded").waitFor();
    expect(fleet.loads).toEqual(["load gpu-6/a-model-with-a-rather-long-name-70b"]);
    await page.context().close();
  });

  it("asks for a key where actions need one, and acts with it", async () => {
    const key = newApiKey();
    const keys = parseKeyLines(`${hashApiKey(key)} name=ops scopes=admin`).entries;
    const rateLimit = { enabled: false, rps: 1, burst: 1 };
    const settings = { auth: { enabled: true, keys }, rateLimit, cluster: "test" };
    const access = await openAccess(settings, { clock: realClock, log: SILENT_LOG });
    const locked = await startPageFleet({ access });
    const { page } = await openPage(browser, LIGHT);
    await page.goto(locked.admin);
    const cordon = async (): Promise<void> => {
      await page.getByRole("button", { name: "Cordon gpu-1/qwen3-8b" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Cordon" }).click();
    };
    await cordon();
    await page.getByLabel("Key", { exact: true }).waitFor();
    // Reading needs no key here: that the page goes on to be read must not take the question away.
    for (let looks = 0; looks < 2; looks++) await page.waitForResponse((answer) => answer.url().endsWith("/dashboard"));
    // It has the focus, wherever the action was; a wrong key is told at once.
    await page.keyboard.type("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("no such key is known").waitFor();
    await page.getByLabel("Key", { exact: true }).fill(key);
    await page.getByRole("button", { name: "Use it" }).click();
    await cordon();
    const card = page.getByRole("article", { name: "Engine gpu-1/qwen3-8b" });
    await card.getByText("cordoned", { exact: true }).waitFor();
    await page.context().close();
    await locked.close();
    access.close();
  });
});
