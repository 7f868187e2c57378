import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { CgnError } from "../../core/errors.ts";

/** One of several answers. */
export interface Choice<T> {
  readonly label: string;
  readonly value: T;
}

/** Who answers questions. */
export interface Asker {
  /** One of a list, by its number. `first` is taken for an empty answer. */
  choose<T>(question: string, choices: readonly Choice<T>[], first?: number): Promise<T>;
  /**
   * A text; an empty answer is `proposed`.
   * @param problem what is wrong with an answer; it is told and asked again
   */
  text(question: string, proposed: string, problem?: (answer: string) => string | undefined): Promise<string>;
  /** Takes what is proposed: said so, so that the user knows. */
  readonly takesDefaults: boolean;
  close(): void;
}

/** What is proposed is the answer (`--yes`). */
export const DEFAULTS: Asker = {
  takesDefaults: true,
  choose: async (_, choices, first = 0) => choices[first]!.value,
  text: async (_, proposed) => proposed,
  close: () => undefined,
};

export interface Terminal {
  readonly input: Readable;
  readonly write: (text: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Questions a line each, at a terminal. Ctrl-C, a stop signal and the end of the input reject with CALLER_LEFT; whoever asks has
 * changed nothing until all is answered.
 */
export function askAtTerminal({ input, write, signal }: Terminal): Asker {
  const lines = createInterface({ input, terminal: false });
  const came: string[] = [];
  let waiting: (() => void) | undefined;
  let ended = signal.aborted;
  const wake = (): void => waiting?.();
  const end = (): void => {
    ended = true;
    wake();
  };
  lines.on("line", (line) => {
    came.push(line);
    wake();
  });
  lines.on("close", end);
  signal.addEventListener("abort", end, { once: true });
  const answer = async (prompt: string): Promise<string> => {
    write(prompt);
    while (came.length === 0 && !ended) await new Promise<void>((resolve) => (waiting = resolve));
    const line = signal.aborted ? undefined : came.shift();
    if (line !== undefined) return line.trim();
    write("\n");
    throw new CgnError("CALLER_LEFT", "Interrupted: nothing was written", {});
  };
  return {
    takesDefaults: false,
    async choose(question, choices, first = 0) {
      write(`\n${question}\n${choices.map(({ label }, n) => `  ${n + 1}  ${label}\n`).join("")}`);
      for (;;) {
        const said = await answer(`Number [${first + 1}]: `);
        const chosen = choices[said === "" ? first : Number(said) - 1];
        if (chosen !== undefined) return chosen.value;
        write(`  "${said}" is none of them. Write a number from 1 to ${choices.length}\n`);
      }
    },
    async text(question, proposed, problem = () => undefined) {
      write("\n");
      for (;;) {
        const said = await answer(`${question}${proposed === "" ? "" : ` [${proposed}]`}: `);
        const given = said === "" ? proposed : said;
        const wrong = given === "" ? "An answer is needed" : problem(given);
        if (wrong === undefined) return given;
        write(`  ${wrong}\n`);
      }
    },
    close: () => lines.close(),
  };
}
