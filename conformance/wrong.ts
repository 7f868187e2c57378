import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadSettings } from "../src/config/load.ts";
import { planEngine } from "../src/config/plan.ts";
import { isCgnError } from "../src/core/errors.ts";
import { parseUserArgs } from "../src/engines/args.ts";
import { ENGINES } from "../src/engines/registry.ts";
import { variantCells, variantPlan } from "../src/engines/variant.ts";
import type { Question, WrongAnswer } from "./answers.ts";
import { ask, askHelp } from "./ask.ts";
import { isInstalled } from "./install.ts";
import type { Pin } from "./pins.ts";
import type { Places } from "./places.ts";
import { WRONG, type WrongLaunch } from "./wrong-launches.ts";

/** What cgn says to what a user wrote; undefined when it refuses nothing. */
export function refusalOf(wrong: WrongLaunch): { code: string; words: string } | undefined {
  const dir = mkdtempSync(join(tmpdir(), "cgn-wrong-"));
  const path = join(dir, "cgn.toml");
  try {
    const model = wrong.toml.includes("[models.") ? "" : '\n[models."org/model"]\n';
    writeFileSync(path, `${wrong.toml}${model}`);
    const env = { XDG_STATE_HOME: dir, XDG_RUNTIME_DIR: dir };
    for (const engine of loadSettings({ path, env, cwd: dir }).engines) planEngine(engine);
    return undefined;
  } catch (error) {
    if (!isCgnError(error)) throw error;
    const { problems = [] } = error.details as { problems?: readonly { problem: string }[] };
    return { code: error.code, words: problems[0]?.problem ?? error.message };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The command line that the program would have been given. */
export function wrongQuestion(wrong: WrongLaunch, version: string): Question {
  const { offload, role, variant } = { offload: "none", role: "both", variant: undefined, ...wrong.cell };
  const cell = variantCells(ENGINES).find(
    (each) =>
      each.variant.program === wrong.program &&
      each.offload === offload &&
      each.role === role &&
      (variant === undefined || each.variant.name === variant),
  );
  if (cell === undefined) throw new Error(`no cell for the wrong launch "${wrong.name}"`);
  const plan = variantPlan(cell, version);
  const replaced = new Set(wrong.flags.map(([name]) => name));
  const kept = parseUserArgs(plan.argv).filter(({ name }) => !replaced.has(name));
  const argv = [...kept.flatMap(({ words }) => words), ...wrong.flags.flat()];
  const env = Object.fromEntries(
    Object.entries(plan.env).filter((e): e is [string, string] => typeof e[1] === "string"),
  );
  return { id: wrong.name, argv, env, ...(wrong.construct === true ? { construct: true } : {}) };
}

/** Put every wrong launch of a program to cgn and to the program. */
export async function askWrong(pin: Pin, places: Places, on: string): Promise<WrongAnswer[]> {
  const asked = WRONG.filter(({ program }) => program === pin.program);
  if (asked.length === 0) return [];
  const questions = asked.map((wrong) => wrongQuestion(wrong, pin.version));
  const answers = isInstalled(pin, places) ? await ask(pin, questions, places) : askHelp(pin.program, questions);
  return asked.map((wrong, i) => {
    const answer = answers[i]!;
    const ours = refusalOf(wrong);
    return {
      name: wrong.name,
      program: pin.program,
      version: pin.version,
      code: ours?.code ?? "",
      ours: (ours?.words ?? "").slice(0, 200),
      refused: !answer.ok,
      stage: answer.stage,
      theirs: (answer.error ?? "").replace(/\s+/g, " ").slice(0, 160),
      ...(wrong.because === undefined ? {} : { because: wrong.because }),
      on,
    };
  });
}

/** Does a wrong launch come out as it must: refused by cgn, and by the program too unless a reason is written? */
export function agrees(answer: WrongAnswer): boolean {
  return answer.code !== "" && (answer.refused || answer.because !== undefined);
}
