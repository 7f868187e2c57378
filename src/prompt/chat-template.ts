import { Environment, Interpreter, Template } from "@huggingface/jinja";
import { type ChatDialect, PLAIN_DIALECT, type TemplateFacts } from "../core/chat-dialect.ts";
import type { ChatRequest, Json } from "../core/chat-request.ts";
import { CgnError } from "../core/errors.ts";
import { withNumbers } from "../core/exact-numbers.ts";
import { type ContentForm, contentForm, finalText, prepareMessages } from "./chat-messages.ts";
import { lastTurn } from "./last-assistant.ts";
import { stripFunctions, withPythonStrings } from "./python-strings.ts";
import { strftime } from "./strftime.ts";
import type { TextNormalizer } from "./text-normalizer.ts";

/** How to render one model's chats. */
export interface ChatRendererOptions {
  /** Jinja, as in `chat_template.jinja`. */
  readonly template: string;
  readonly bosToken: string;
  readonly eosToken: string;
  /** Other special tokens that the template may name, for example `unk_token`. */
  readonly specialTokens?: Readonly<Record<string, string>>;
  /** Local time for `strftime_now`. Without it a template that asks for the date cannot be rendered. */
  readonly now?: () => Date;
  /** Told each time that the template, or its engine, asks for the date, and what it was told. */
  readonly onDate?: (format: string, text: string) => void;
  /** What the engine puts between text parts where the template wants plain text. Default a line end (vLLM 0.32). */
  readonly textJoin?: string;
  /** What the engine makes of the messages. Default `PLAIN_DIALECT`. */
  readonly dialect?: ChatDialect;
  /** From `textNormalizer()`. */
  readonly normalize?: TextNormalizer | undefined;
}

/** The prompt's bytes, or why a prompt of this kind has none (it is routed without a prefix then). */
export type RenderedPrompt = { readonly bytes: Uint8Array } | { readonly reason: string };

/** Renders the chats of one model. */
export interface ChatRenderer {
  /**
   * The prompt as the engine sees it before tokenising, UTF-8.
   * @throws CgnError TEMPLATE_FAILED when the template refuses the messages (the engine would too) or cannot be run
   */
  render(request: ChatRequest): RenderedPrompt;
}

/** Templates compiled so far, least recently used first. A router has a few models. */
const compiled = new Map<string, Template>();
const MAX_COMPILED = 64;

/**
 * Make a renderer for one model's template, interpreted with the settings of Hugging Face's `apply_chat_template`
 * (`trim_blocks`, `lstrip_blocks`).
 * @throws CgnError TEMPLATE_FAILED when the template is no Jinja that can be read
 */
export function createChatRenderer(options: ChatRendererOptions): ChatRenderer {
  const template = compile(options.template);
  const contents = options.dialect?.contents;
  const form =
    contents === "text"
      ? contents
      : contents === "parts" || contents === "given"
        ? "parts"
        : contentForm(options.template);
  const facts = templateFacts(options, template);
  return { render: (request) => renderRequest(options, template, form, facts, request) };
}

/** What an engine's dialect may ask of the template. Answers do not change: each is found once. */
export function templateFacts(options: ChatRendererOptions, template = compile(options.template)): TemplateFacts {
  const { now } = options;
  const said = new Map<string, string | undefined>();
  const once = (key: string, context: Json): string | undefined => {
    if (!said.has(key)) said.set(key, tryRun(template, { ...blanksOf(options), ...context }));
    return said.get(key);
  };
  const hi = { messages: [{ role: "user", content: "Hi" }], tools: null, add_generation_prompt: true };
  return {
    template: options.template,
    refuses: (messages) => once(JSON.stringify(messages), { messages, add_generation_prompt: false }) === undefined,
    promptFor: (effort) =>
      once(effort, { ...contextOf(options), ...hi, reasoning_effort: effort, enable_thinking: effort !== "none" }),
    now: now === undefined ? undefined : (format) => dateText(options, format),
  };
}

function tryRun(template: Template, context: Json): string | undefined {
  try {
    return run(template, context);
  } catch {
    return undefined;
  }
}

const PYTHON_BLANKS = stripFunctions(false);
const ASCII_BLANKS = stripFunctions(true);
const blanksOf = ({ dialect }: ChatRendererOptions): Json =>
  dialect?.asciiBlanks === true ? ASCII_BLANKS : PYTHON_BLANKS;

function contextOf(options: ChatRendererOptions): Json {
  const { specialTokens, bosToken, eosToken } = options;
  const strftime_now = (format: string) => dateText(options, format);
  return { ...blanksOf(options), ...specialTokens, bos_token: bosToken, eos_token: eosToken, strftime_now };
}

function compile(source: string): Template {
  const known = compiled.get(source);
  const template = known ?? tried("Cannot read the chat template", () => parseTemplate(source));
  compiled.delete(source);
  compiled.set(source, template);
  const [oldest] = compiled.keys();
  if (compiled.size > MAX_COMPILED && oldest !== undefined) compiled.delete(oldest);
  return template;
}

function parseTemplate(source: string): Template {
  const template = new Template(source);
  withPythonStrings(template.parsed);
  return template;
}

function renderRequest(
  options: ChatRendererOptions,
  template: Template,
  form: ContentForm,
  facts: TemplateFacts,
  given: ChatRequest,
): RenderedPrompt {
  if (typeof given.chat_template === "string") return { reason: "the request brings its own chat_template" };
  const dialect = options.dialect ?? PLAIN_DIALECT;
  const made = dialect.prepare?.(given, facts) ?? { value: given };
  if ("reason" in made) return made;
  const request = made.value;
  const messages = prepareMessages(request.messages, form, options.textJoin ?? "\n", dialect);
  if ("reason" in messages) return messages;
  const { add_generation_prompt: generate } = request;
  const turn = lastTurn(messages.value, dialect, {
    proceed: request.continue_final_message === true,
    generate: typeof generate === "boolean" ? generate : undefined,
    parts: lastHasParts(given.messages),
  });
  if ("reason" in turn) return turn;
  const { suffix, cut, addGenerationPrompt } = turn.value;
  const context = {
    ...contextOf(options),
    messages: turn.value.messages,
    tools: Array.isArray(request.tools) && request.tools.length > 0 ? request.tools : null,
    documents: Array.isArray(request.documents) ? request.documents : null,
    add_generation_prompt: addGenerationPrompt,
    ...kwargs(request.chat_template_kwargs),
  };
  let text = withNumbers(tried("Cannot render the chat template", () => run(template, context)));
  if (cut) {
    const kept = cutAfter(text, finalText(messages.value));
    if (kept === undefined) return { reason: "the template does not end with the last message's content" };
    text = kept;
  }
  text += suffix;
  return { bytes: new TextEncoder().encode(options.normalize?.(text) ?? text) };
}

function lastHasParts(messages: unknown): boolean {
  const last = Array.isArray(messages) ? (messages.at(-1) as { readonly content?: unknown } | null) : undefined;
  return Array.isArray(last?.content) && last.content.length > 1;
}

/** Names that every template may use. `Template.render()` would bring its own, with the machine's clock. */
const GLOBALS: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  range: rangeOf,
  raise_exception: (message: unknown) => {
    throw new Error(String(message));
  },
};

function run(template: Template, context: Readonly<Record<string, unknown>>): string {
  const environment = new Environment();
  for (const [name, value] of Object.entries({ ...context, ...GLOBALS })) environment.set(name, value);
  return String(new Interpreter(environment).run(template.parsed).value);
}

/** Longest list that a template may make: far above any chat, far below what hurts. */
const MAX_RANGE = 1_000_000;

/** Jinja's `range(stop)` and `range(start, stop, step)`. */
function rangeOf(first: number, second?: number, step = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE)) throw new Error(`range() of ${length} items is too long`);
  return Array.from({ length }, (_, i) => start + i * step);
}

function kwargs(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function dateText({ now, onDate }: ChatRendererOptions, format: string): string {
  if (now === undefined) throw new Error("it asks for the date, and no clock was given");
  const text = strftime(now(), format);
  onDate?.(format, text);
  return text;
}

/**
 * `continue_final_message` as `apply_chat_template` of transformers 5 does it: the prompt ends with the last message's
 * content, without white space that the template trimmed.
 */
function cutAfter(text: string, final: string | undefined): string | undefined {
  if (final === undefined) return undefined;
  const at = text.lastIndexOf(final.trim());
  if (at < 0) return undefined;
  const kept = final.trimStart();
  return text.startsWith(kept, at) ? text.slice(0, at + kept.length) : text.slice(0, at + final.trim().length);
}

function tried<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw new CgnError("TEMPLATE_FAILED", `${what}: ${said}`, { said }, { cause });
  }
}
