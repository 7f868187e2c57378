// npm run test:first-run [-- --sim] [-- --keep]: what a newcomer does, on a clone of the last commit with empty caches: npm run demo, then
// the page in headless Chromium: a chat, its route, and the decision behind it. Prints the seconds of each step as JSON; more than three minutes
// are a failure. Plain JavaScript that Node 18 can run; it uses nothing of this tree's node_modules.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { CACHE, ROOT } from "./node.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:first-run");

const LIMIT_S = 180;
const PATIENCE_MS = 600_000;
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);
const QUESTION = "What do glass plates keep?";

/** Nothing that this user has installed or downloaded; which registries he uses stays. */
function emptyEnvironment(home) {
  const { PATH = "", ...mine } = process.env;
  const kept = Object.entries(mine).filter(
    ([name]) =>
      !/^(?:npm_|XDG_|CGN_|INIT_CWD|NODE|VIRTUAL_ENV|PIP_CACHE|HF_)/.test(name) || /^npm_config_registry$/i.test(name),
  );
  const npmrc = join(homedir(), ".npmrc");
  const pip = [join(homedir(), ".config", "pip", "pip.conf"), join(homedir(), ".pip", "pip.conf")].find(existsSync);
  return {
    ...Object.fromEntries(kept),
    HOME: home,
    PATH: PATH.split(delimiter)
      .filter((folder) => !folder.startsWith(ROOT))
      .join(delimiter),
    npm_config_cache: join(home, "npm-cache"),
    // pip tells its registry the version of rustc, and rustup's stand-in for it would make its folder where it finds none.
    RUSTUP_HOME: process.env.RUSTUP_HOME ?? join(homedir(), ".rustup"),
    ...(existsSync(npmrc) ? { npm_config_userconfig: npmrc } : {}),
    ...(pip === undefined ? {} : { PIP_CONFIG_FILE: pip }),
    PIP_CACHE_DIR: join(home, "pip-cache"),
  };
}

/** Starts `npm run demo`; `page` is its dashboard's address, once it serves. */
function startDemo(clone, env, args) {
  const child = spawn("npm", ["run", "demo", ...(args.length > 0 ? ["--", ...args] : [])], {
    cwd: clone,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let said = "";
  const exit = new Promise((resolve) => child.once("close", (code) => resolve(code ?? 1)));
  const page = new Promise((resolve, reject) => {
    const hear = (chunk) => {
      said += chunk;
      process.stderr.write(chunk);
      const [, url] = /dashboard at (http:\S+?)\. /.exec(said) ?? [];
      if (url !== undefined) resolve(url);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    void exit.then((code) => reject(new Error(`npm run demo ended with ${code}`)));
    setTimeout(() => reject(new Error("npm run demo does not serve")), PATIENCE_MS).unref();
  });
  return { child, exit, page };
}

/** A chat of two turns in the page; throws where a route or its decision is not shown. */
async function chatInPage(clone, url) {
  const { chromium } = await import(pathToFileURL(join(clone, "node_modules", "playwright-core", "index.mjs")).href);
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE_MS });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(`${url}#/chat`);
    const routes = [];
    for (const turn of [0, 1]) {
      await page.locator("#chat-text").fill(QUESTION);
      await page.locator("#chat-text").press("Enter");
      const route = page.locator(".route").nth(turn);
      // The engine's own count comes with the end of the answer; before that the page takes no other question.
      await route.filter({ hasText: /really cached \d.* tokens in / }).waitFor();
      routes.push(((await route.textContent()) ?? "").replaceAll(/\s+/g, " "));
    }
    mkdirSync(join(CACHE, "screens"), { recursive: true });
    await page.screenshot({ path: join(CACHE, "screens", "first-run.png") });
    await page.locator(".route a").last().click();
    await page.locator("tr.chosen").first().waitFor();
    return routes;
  } finally {
    await browser.close();
  }
}

/** Processes that were started from the clone and are still there. */
function left(clone) {
  if (!existsSync("/proc/self/cmdline")) return [];
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(clone);
    } catch {
      return false;
    }
  });
}

async function firstRun(place, demoArgs) {
  const [home, clone] = [join(place, "home"), join(place, "cgn")];
  mkdirSync(home);
  const began = performance.now();
  const seconds = {};
  const lap = (name) => (seconds[name] = Math.round((performance.now() - began) / 100) / 10);
  const cloned = spawnSync("git", ["clone", "-q", "--no-hardlinks", ROOT, clone], { stdio: "inherit" });
  if (cloned.status !== 0) throw new Error("the tree could not be cloned");
  lap("cloned");
  const demo = startDemo(clone, emptyEnvironment(home), demoArgs);
  try {
    const url = await demo.page;
    lap("demo serves");
    const routes = await chatInPage(clone, url);
    lap("chat with its route");
    process.kill(-demo.child.pid, "SIGINT");
    const code = await demo.exit;
    lap("ended");
    // pip asks `rustc` for its version, and where that is rustup's it makes a folder.
    const outside = readdirSync(home, { recursive: true }).filter(
      (name) => !/^(?:npm|pip)-cache|^\.npm(?:\/|$)/.test(name),
    );
    return { seconds, routes, exit: code, left: left(clone), outside };
  } finally {
    try {
      process.kill(-demo.child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

const args = process.argv.slice(2);
const place = mkdtempSync(join(tmpdir(), "cgn-first-run-"));
try {
  if (CHROMIUM === undefined) {
    console.error("cgn: there is no Chromium on this host. Install it (apt-get install chromium), then try again");
    process.exitCode = process.env.CGN_REQUIRE_TOOLS === "1" ? 1 : 0;
  } else {
    const result = await firstRun(place, args.includes("--sim") ? ["--sim"] : []);
    console.log(JSON.stringify(result, null, 2));
    const total = result.seconds["chat with its route"];
    // npm makes 1 of the 130 of Ctrl-C.
    const ended = [0, 1, 130].includes(result.exit) && result.left.length === 0 && result.outside.length === 0;
    const fine = ended && total < LIMIT_S;
    console.log(
      `${fine ? "ok" : "not ok"}: from a clone with empty caches to a chat with its route in ${total} s (limit ${LIMIT_S})`,
    );
    process.exitCode = fine ? 0 : 1;
  }
} catch (e) {
  console.error(`cgn: the first run failed: ${e.message}`);
  process.exitCode = 1;
} finally {
  if (args.includes("--keep")) console.log(place);
  else rmSync(place, { recursive: true, force: true, maxRetries: 5 });
}
