import { describe, expect, it } from "vitest";
import { type ChatDialect, PLAIN_DIALECT } from "../core/chat-dialect.ts";
import type { ChatRequest } from "../core/chat-request.ts";
import { isCgnError } from "../core/errors.ts";
import { BYTE_BOS, BYTE_CHAT_TEMPLATE, BYTE_EOS } from "./byte-template.ts";
import { createChatRenderer, type RenderedPrompt } from "./chat-template.ts";

const text = (rendered: RenderedPrompt) =>
  "bytes" in rendered ? new TextDecoder().decode(rendered.bytes) : `(${rendered.reason})`;

function render(template: string, request: ChatRequest, extra: { textJoin?: string; now?: () => Date } = {}): string {
  return text(createChatRenderer({ template, bosToken: "<s>", eosToken: "</s>", ...extra }).render(request));
}

const hi = { messages: [{ role: "user", content: "hi" }] };
const TURNS =
  "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}";

describe("render()", () => {
  it("render() gives special tokens and asks for an answer by default", () => {
    expect(render(`{{ bos_token }}${TURNS}`, hi)).toBe("<s>[user:hi]>");
    expect(render(TURNS, { ...hi, add_generation_prompt: false })).toBe("[user:hi]");
  });

  it("render() joins text parts when the template wants text", () => {
    const messages = [
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ];
    expect(render(TURNS, { messages })).toBe("[user:a\nb]>");
    expect(render(TURNS, { messages }, { textJoin: " " })).toBe("[user:a b]>");
  });

  it("render() hands on parts when the template walks over them", () => {
    const template =
      "{% for message in messages %}{% for part in message['content'] %}<{{ part.text }}>{% endfor %}{% endfor %}";
    const messages = [
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ];
    expect(render(template, { messages })).toBe("<a><b>");
  });

  it("render() says why an image has no bytes", () => {
    const messages = [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }];
    expect(render(TURNS, { messages })).toBe("(a message has a part of type image_url, which is no text)");
    expect(render(TURNS, { ...hi, chat_template: "x" })).toBe("(the request brings its own chat_template)");
    expect(render(TURNS, { messages: "hi" })).toBe("(messages is no list)");
  });

  it("render() takes null content as empty text and tool arguments as an object", () => {
    const call = { id: "1", type: "function", function: { name: "f", arguments: '{"a": "é", "b": [1, 2.5]}' } };
    const template =
      "{% for m in messages %}{{ m.content }}|{{ m.tool_calls[0].function.arguments | tojson }}{% endfor %}";
    const messages = [{ role: "assistant", content: null, tool_calls: [call] }];
    expect(render(template, { messages })).toBe('|{"a": "é", "b": [1, 2.5]}');
  });

  it("render() lets chat_template_kwargs override and passes tools only when there are some", () => {
    const template = "{{ 'think' if enable_thinking else 'no' }} {{ 'none' if tools is none else 'some' }}";
    expect(render(template, { ...hi, tools: [], chat_template_kwargs: { enable_thinking: true } })).toBe("think none");
  });

  it("render() ends with the last message when the answer continues it", () => {
    const messages = [...hi.messages, { role: "assistant", content: "Once upon " }];
    expect(render(TURNS, { messages, continue_final_message: true })).toBe("[user:hi][assistant:Once upon ");
  });

  it("render() tells the date by the clock it was given", () => {
    const template = "{{ strftime_now('%d %b %Y %-d/%-m %A %H:%M') }}";
    const now = () => new Date(2026, 10, 9, 4, 5);
    expect(render(template, hi, { now })).toBe("09 Nov 2026 9/11 Monday 04:05");
    expect(() => render(template, hi)).toThrow(/no clock was given/);
  });

  it("render() throws TEMPLATE_FAILED with the template's own words", () => {
    let thrown: unknown;
    try {
      render("{{ raise_exception('roles must alternate') }}", hi);
    } catch (e) {
      thrown = e;
    }
    expect(isCgnError(thrown, "TEMPLATE_FAILED")).toBe(true);
    expect((thrown as Error).message).toContain("roles must alternate");
    expect(() => render("{% for %}", hi)).toThrow(/Cannot read the chat template/);
  });

  it("render() renders the byte vocabulary's template", () => {
    const renderer = createChatRenderer({ template: BYTE_CHAT_TEMPLATE, bosToken: BYTE_BOS, eosToken: BYTE_EOS });
    expect(text(renderer.render(hi))).toBe("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  });
});

describe("dialects", () => {
  const template =
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}({{ part.text }}){% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  const user = { role: "user", content: "hi" };
  const assistant = { role: "assistant", content: "The answer" };
  const render = (dialect: ChatDialect, request: ChatRequest): string => {
    return text(createChatRenderer({ template, bosToken: "", eosToken: "", dialect }).render(request));
  };

  it("render() makes an assistant's last message the user's, or continues it when asked, for SGLang", () => {
    const sglang: ChatDialect = { lastAssistant: "user" };
    const messages = [user, assistant];
    expect(render(sglang, { messages })).toBe("[user]hi[user]The answer[assistant]");
    expect(render(sglang, { messages, continue_final_message: true })).toBe("[user]hi[assistant]The answer");
    expect(render(sglang, { messages, add_generation_prompt: false })).toBe("[user]hi[assistant]The answer");
    expect(render(sglang, { messages: [user] })).toBe("[user]hi[assistant]");
  });

  it("render() hands texts on as parts to templates that walk over parts, for vLLM", () => {
    const vllm: ChatDialect = { contents: "wrapped", lastAssistant: "kept" };
    const tool = { role: "tool", content: [{ type: "text", text: "4" }] };
    expect(render(vllm, { messages: [user, tool] })).toBe("[user](hi)[tool]4[assistant]");
    expect(render(vllm, { messages: [{ role: "user", content: null }] })).toBe("[user][assistant]");
    expect(render(PLAIN_DIALECT, { messages: [user, tool] })).toBe("[user]hi[tool](4)[assistant]");
    expect(render({ contents: "text", lastAssistant: "kept" }, { messages: [tool] })).toBe("[tool]4[assistant]");
  });

  it("render() hands the role developer on where the engine does", () => {
    const messages = [{ role: "developer", content: "d" }, user];
    expect(render(PLAIN_DIALECT, { messages })).toBe("[developer]d[user]hi[assistant]");
  });
});
