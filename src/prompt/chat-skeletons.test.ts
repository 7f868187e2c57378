import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChatRequest } from "../core/chat-request.ts";
import { BYTE_CHAT_TEMPLATE } from "./byte-template.ts";
import { createFastChatRenderer } from "./chat-skeletons.ts";
import { createChatRenderer } from "./chat-template.ts";

const TEMPLATES: Readonly<Record<string, string>> = {
  bytes: BYTE_CHAT_TEMPLATE,
  "a default system prompt": `{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<s>You help.</s>{% endif %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`,
  "trimmed contents": `{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}\n{% endfor %}`,
  "the system prompt within the first user turn": `{% if messages[0].role == 'system' %}{% set sys = messages[0].content + '\n' %}{% set rest = messages[1:] %}{% else %}{% set sys = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}({{ m.role }} {% if loop.first %}{{ sys }}{% endif %}{{ m.content }}){% endfor %}`,
  "thoughts dropped from past turns": `{% for m in messages %}<{{ m.role }}>{% set c = m.content %}{% if m.role == 'assistant' and '</think>' in c and not loop.last %}{% set c = c.split('</think>')[-1] %}{% endif %}{{ c }}{% endfor %}`,
  "roles that must alternate": `{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{{ m.content }};{% endfor %}`,
  "contents twice": `{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}`,
  "contents upper-cased": `{% for m in messages %}{{ m.content | upper }}{% endfor %}`,
};

const role = fc.constantFrom("system", "user", "assistant", "tool");
const content = fc.oneof(
  fc.string(),
  fc.constantFrom("hi", " hi ", "", "a</think>b", "<|im_end|>", "Ünï 😀", "x\ny", "[user]", "\u{e000}0\u{e001}"),
);
const chat = fc.array(fc.record({ role, content }), { minLength: 1, maxLength: 5 });

describe("createFastChatRenderer()", () => {
  it.each(Object.entries(TEMPLATES))("renders what the template renders: %s", (_name, template) => {
    const options = { template, bosToken: "<bos>", eosToken: "<eos>" };
    const exact = createChatRenderer(options);
    const fast = createFastChatRenderer(options);
    const run = (renderer: typeof exact, request: ChatRequest): unknown => {
      try {
        const prompt = renderer.render(request);
        return "bytes" in prompt ? new TextDecoder().decode(prompt.bytes) : prompt;
      } catch (e) {
        return (e as Error).message;
      }
    };
    fc.assert(
      fc.property(
        chat,
        fc.constantFrom({}, { tools: [{ type: "function" }] }, { add_generation_prompt: false }),
        (messages, more) => {
          // Several times: the first ones are compared with the template anyway.
          for (let i = 0; i < 4; i++)
            expect(run(fast, { messages, ...more })).toEqual(run(exact, { messages, ...more }));
        },
      ),
      { numRuns: 300 },
    );
  });

  it("normalises the whole text, as the template's renderer does", () => {
    const normalize = (text: string): string => text.normalize("NFC");
    const options = {
      template: "{% for m in messages %}e{{ m.content }}{% endfor %}",
      bosToken: "",
      eosToken: "",
      normalize,
    };
    const fast = createFastChatRenderer(options);
    const messages = [{ role: "user", content: "\u0301" }];
    for (let i = 0; i < 5; i++) {
      const prompt = fast.render({ messages });
      expect("bytes" in prompt && new TextDecoder().decode(prompt.bytes)).toBe("\u00e9");
    }
  });
});
