import { ENGINES } from "../src/engines/registry.ts";
import { launchShape, type VariantCell, variantCells, variantPlan, variantShape } from "../src/engines/variant.ts";
import type { CellAnswer, Question } from "./answers.ts";
import { ask, askHelp } from "./ask.ts";
import { isInstalled } from "./install.ts";
import type { Pin } from "./pins.ts";
import type { Places } from "./places.ts";

const nameOf = ({ engine, offload, role, variant }: VariantCell): string =>
  [engine.kind, offload, role, variant.name].join("/");

/** The supported cells that a program takes, rendered for a version of it; without those that cgn refuses for that version. */
export function questionsFor(pin: Pin): { cell: VariantCell; question: Question; shape: string }[] {
  return variantCells(ENGINES)
    .filter((cell) => cell.variant.program === pin.program && variantShape(cell, pin.version) !== undefined)
    .map((cell) => {
      const plan = variantPlan(cell, pin.version);
      const env = Object.fromEntries(
        Object.entries(plan.env).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
      );
      return { cell, question: { id: nameOf(cell), argv: plan.argv, env }, shape: launchShape(plan) };
    });
}

/** Ask the program of a pin about every supported cell; one that is not installed is asked by its recorded help. */
export async function askSupported(pin: Pin, places: Places, on: string): Promise<CellAnswer[]> {
  const asked = questionsFor(pin);
  const questions = asked.map(({ question }) => question);
  const answers = isInstalled(pin, places) ? await ask(pin, questions, places) : askHelp(pin.program, questions);
  return asked.map(({ cell, shape }, i) => {
    const answer = answers[i]!;
    return {
      program: pin.program,
      version: pin.version,
      kind: cell.engine.kind,
      offload: cell.offload,
      role: cell.role,
      variant: cell.variant.name,
      ok: answer.ok,
      stage: answer.stage,
      ...(answer.error === null ? {} : { error: answer.error.slice(0, 300) }),
      shape,
      on,
    };
  });
}
