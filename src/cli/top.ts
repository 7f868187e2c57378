import { toCgnError } from "../core/errors.ts";
import { ADMIN_OPTIONS } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { figuresBetween, type RouterLook } from "./router-figures.ts";
import { routerJson, routerText } from "./router-view.ts";
import { lookAtRouter } from "./status.ts";

const HOME = "\u001b[H";
const CLEAR_LINE = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";

/** `cgn top`: the same as status, again and again, with rates. */
export const topCommand: Command = {
  name: "top",
  about: "watch a router: engines, requests a second, TTFT, cache hits predicted and real, queues. Ctrl-C ends",
  examples: ["cgn top", "cgn top --interval 5", "cgn top --once --json"],
  options: {
    ...ADMIN_OPTIONS,
    interval: { type: "number", value: "SECONDS", about: "time between two looks", default: 2, min: 0.2, max: 3600 },
    once: { type: "boolean", about: "print the rates of one interval and end (so it is where stdout is no terminal)" },
    json: { type: "boolean", about: "print JSON, one line a look" },
  },
  async run({ options }, cli) {
    const intervalMs = Number(options["interval"] ?? 2) * 1000;
    const first = await lookAtRouter(options, cli);
    if (options["once"] === true || (process.stdout.isTTY !== true && options["json"] !== true)) {
      await pause(intervalMs, cli);
      cli.out(frame(first, await lookAtRouter(options, cli), options));
      return 0;
    }
    await watch(first, intervalMs, options, cli);
    return 0;
  },
};

async function watch(first: RouterLook, intervalMs: number, options: Values, cli: CliContext): Promise<void> {
  const screen = options["json"] !== true;
  let before = first;
  if (screen) {
    process.stdout.write(ENTER);
    draw(frame(undefined, first, options));
  }
  try {
    while (!cli.signal.aborted) {
      await pause(intervalMs, cli);
      if (cli.signal.aborted) break;
      try {
        const now = await lookAtRouter(options, cli);
        const text = frame(before, now, options);
        if (screen) draw(text);
        else cli.out(text);
        before = now;
      } catch (e) {
        // A router that is started anew comes back.
        if (screen) draw(toCgnError(e).message);
        else cli.err(toCgnError(e).message);
      }
    }
  } finally {
    if (screen) process.stdout.write(LEAVE);
  }
}

function frame(before: RouterLook | undefined, now: RouterLook, options: Values): string {
  const figures = figuresBetween(before, now);
  return options["json"] === true ? JSON.stringify(routerJson(now.status, figures)) : routerText(now.status, figures);
}

/** Lines are cut at the screen's edges: a wrapped one would push the rest away. */
function draw(text: string): void {
  const { columns = 120, rows = 40 } = process.stdout;
  const lines = text.split("\n").slice(0, rows - 1);
  process.stdout.write(`${HOME}${lines.map((line) => line.slice(0, columns) + CLEAR_LINE).join("\n")}${CLEAR_BELOW}`);
}

function pause(ms: number, cli: CliContext): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      cli.signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = cli.clock.after(ms, done);
    cli.signal.addEventListener("abort", done, { once: true });
  });
}
