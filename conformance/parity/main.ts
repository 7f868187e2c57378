import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { findEngine } from "../../src/engines/registry.ts";
import { vocabularyFromTokenizer } from "../../src/prompt/tokenizer-json.ts";
import type { Vocabulary } from "../../src/prompt/vocabulary.ts";
import { cacheFolder, Places, ROOT } from "../places.ts";
import { type Ours, oursFor, promptHash } from "./compare.ts";
import { type EngineAnswer, type ParityEngine, startLlama, startVllm } from "./engines.ts";
import { type ParityCase, randomBodies } from "./random-bodies.ts";
import { type Difference, rowText, type TemplateRow } from "./report.ts";

const USAGE = `npm run parity [-- OPTIONS]

Compare the prompts that cgn renders with those of real engines, byte by byte: random chats, bodies of /v1/messages and /v1/responses
(tools, scripts, emoji, code, odd white space, orders of roles, thoughts), through the chat templates of several families.

  --engine NAMES    vllm, llama, llama-no-jinja; separated by commas (default: vllm,llama)
  --only NAMES      templates, by file name without .jinja
  --templates DIR   more templates: all *.jinja there (llama.cpp has some dozens in models/templates)
  --count N         bodies for each template (default 520)
  --seed N          which bodies (default 7)
  --show N          differences shown for each template (default 3)
  --record          write what vLLM answers to test/fixtures/templates/vllm.json
  --cache DIR       where \`npm run conformance\` has installed the engines
  --json            figures as JSON
`;

const FIXTURES = join(ROOT, "test", "fixtures");
const RECORD = join(FIXTURES, "templates", "vllm.json");
const MODEL = join(FIXTURES, "models", "smollm2");

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      engine: { type: "string", default: "vllm,llama" },
      only: { type: "string" },
      templates: { type: "string", multiple: true, default: [] },
      count: { type: "string", default: "520" },
      seed: { type: "string", default: "7" },
      show: { type: "string", default: "3" },
      record: { type: "boolean", default: false },
      cache: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const places = new Places(cacheFolder(values.cache, process.env));
  const bodies = randomBodies(Number(values.count), Number(values.seed));
  const vocabulary = vocabularyFromTokenizer(JSON.parse(readFileSync(join(MODEL, "tokenizer.json"), "utf8")));
  const rows: TemplateRow[] = [];
  const recorded: Record<string, string> = {};
  for (const engine of values.engine.split(",")) {
    for (const file of templateFiles(values.templates, values.only?.split(","))) {
      const { row, answers } = await compareOne(engine, file, bodies, vocabulary, places);
      rows.push(row);
      if (!values.json) process.stdout.write(rowText(row, Number(values.show)));
      if (engine === "vllm") recorded[row.template] = answers.map(hashOf).join(" ");
    }
  }
  if (values.json) process.stdout.write(`${JSON.stringify(rows, undefined, 1)}\n`);
  if (values.record) record(recorded, bodies.length, Number(values.seed));
  return rows.some((row) => row.different.length > 0) ? 1 : 0;
}

function templateFiles(more: readonly string[], only: readonly string[] | undefined): string[] {
  const folders = [join(FIXTURES, "templates"), ...more];
  const files = folders.flatMap((dir) =>
    readdirSync(dir)
      .filter((name) => name.endsWith(".jinja"))
      .map((name) => join(dir, name)),
  );
  const all = [join(MODEL, "chat_template.jinja"), ...files];
  const chosen = only === undefined ? all : all.filter((file) => only.includes(nameOf(file)));
  if (chosen.length > 0) return chosen;
  process.stderr.write(`Cannot find a template of these names. There are ${all.map(nameOf).join(", ")}\n`);
  process.exit(2);
}

const nameOf = (file: string): string => (file.startsWith(MODEL) ? "smollm2" : basename(file, ".jinja"));

interface Compared {
  readonly row: TemplateRow;
  readonly answers: readonly (string | undefined)[];
}

async function compareOne(
  name: string,
  file: string,
  bodies: readonly ParityCase[],
  vocabulary: Vocabulary,
  places: Places,
): Promise<Compared> {
  const engine = await startAgain(() =>
    name === "vllm" ? startVllm(places, file) : startLlama(places, file, name === "llama" ? [] : ["--no-jinja"]),
  );
  try {
    const kind = findEngine(name === "vllm" ? "vllm" : "llama_cpp");
    const path = kind.probe.template?.path;
    const props = path === undefined ? undefined : await (await fetch(engine.url + path)).text();
    const told = props === undefined ? undefined : kind.probe.template?.parse(props);
    const ours = oursFor({
      engine: kind,
      template: readFileSync(file, "utf8"),
      told,
      bosToken: told?.bos ?? "<|im_start|>",
      eosToken: told?.eos ?? "<|im_end|>",
      specialTokens: name === "vllm" ? { unk_token: "<|endoftext|>", pad_token: "<|im_end|>" } : {},
      now: new Date(),
    });
    return await askAll({ name, template: nameOf(file), engine, bodies, vocabulary, ours });
  } finally {
    await engine.stop();
  }
}

/** A port that was free may be another's by the time that the engine listens. */
async function startAgain(start: () => Promise<ParityEngine>): Promise<ParityEngine> {
  for (let tries = 1; ; tries++) {
    try {
      return await start();
    } catch (e) {
      if (tries === 3) throw e;
    }
  }
}

interface Asked {
  readonly name: string;
  readonly template: string;
  readonly engine: ParityEngine;
  readonly bodies: readonly ParityCase[];
  readonly vocabulary: Vocabulary;
  readonly ours: ReturnType<typeof oursFor>;
}

async function askAll({ name, template, engine, bodies, vocabulary, ours }: Asked): Promise<Compared> {
  const answers: (string | undefined)[] = [];
  const row = { engine: name, template, bodies: bodies.length, equal: 0, refused: 0, onlyEngineRefuses: 0, fast: 0 };
  const unmatched: Record<string, number> = {};
  const different: Difference[] = [];
  for (const one of bodies) {
    const answer = await engine.ask(one);
    const theirs = textOf(answer, vocabulary);
    answers.push(theirs);
    const mine = ours.whole(one);
    if (same(ours.fast(one), mine) && same(ours.fast(one), mine) && same(ours.fast(one), mine)) row.fast++;
    if (theirs === undefined) row["none" in mine ? "refused" : "onlyEngineRefuses"]++;
    else if ("none" in mine) unmatched[mine.none] = (unmatched[mine.none] ?? 0) + 1;
    else if (mine.text === theirs) row.equal++;
    else different.push({ api: one.api, ours: mine.text, theirs });
  }
  return { row: { ...row, unmatched, different }, answers };
}

const same = (a: Ours, b: Ours): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Undefined where the engine refuses. */
function textOf(answer: EngineAnswer, vocabulary: Vocabulary): string | undefined {
  if ("text" in answer) return answer.text;
  if ("refused" in answer) return undefined;
  const bytes = vocabulary.decode(answer.ids);
  return bytes === undefined ? "(an id that the vocabulary lacks)" : decoder.decode(bytes);
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const hashOf = (text: string | undefined): string => (text === undefined ? "-" : promptHash(text));

/** What is recorded already of other templates stays. */
function record(recorded: Record<string, string>, bodies: number, seed: number): void {
  const before = JSON.parse(readFileSync(RECORD, "utf8")) as { readonly prompts: Record<string, string> };
  const kept = new Set(readdirSync(join(FIXTURES, "templates")).map((name) => basename(name, ".jinja"))).add("smollm2");
  const prompts = Object.fromEntries(
    Object.entries({ ...before.prompts, ...recorded }).filter(([name]) => kept.has(name)),
  );
  const now = new Date();
  const day = [now.getFullYear(), now.getMonth() + 1, now.getDate()];
  writeFileSync(RECORD, `${JSON.stringify({ bodies, seed, day, prompts }, undefined, 1)}\n`);
}

process.exitCode = await main();
