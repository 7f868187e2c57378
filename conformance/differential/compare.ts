import { comparable, wordsOf } from "../../src/sim/testing/answer-shape.ts";
import type { Recorded } from "./record.ts";

/** What two answers to one request differ in. */
export interface Difference {
  readonly name: string;
  /** `body`: fields, the types of their values, the order of a stream's events. `words`: the message of an error. */
  readonly what: "status" | "type" | "body" | "words";
  readonly real: string;
  readonly simulated: string;
}

/**
 * Compare what the real engine answered with what the simulated one did. What a model makes up (texts, numbers, how many
 * tokens) is not compared.
 */
export function compare(real: readonly Recorded[], simulated: readonly Recorded[]): readonly Difference[] {
  const other = new Map(simulated.map((each) => [each.name, each]));
  return real.flatMap((each) => {
    const found = other.get(each.name);
    return found === undefined ? [] : compareOne(each, found);
  });
}

function compareOne(real: Recorded, simulated: Recorded): readonly Difference[] {
  const { name } = real;
  if (real.status !== simulated.status) {
    const say = ({ status, text }: Recorded): string => `${status} ${text.slice(0, 200)}`;
    return [{ name, what: "status", real: say(real), simulated: say(simulated) }];
  }
  const all: Difference[] = [];
  const check = (what: Difference["what"], a: string, b: string): void => {
    if (a !== b) all.push({ name, what, real: a, simulated: b });
  };
  check("type", real.type, simulated.type);
  check("body", comparable(real.type, real.text), comparable(simulated.type, simulated.text));
  if (real.status >= 400) check("words", wordsOf(real.text), wordsOf(simulated.text));
  return all;
}
