/** Opens and closes a turn in `BYTE_CHAT_TEMPLATE`; plain text, since every byte is a token of its own. */
export const BYTE_TURN_START = "<|im_start|>";
export const BYTE_TURN_END = "<|im_end|>";

/**
 * The chat template that goes with the built-in byte vocabulary (id = byte): ChatML turns, tools as JSON in a first turn of
 * their own. What it renders, taken as UTF-8, *is* the token ids. The simulator and the router use this very text.
 */
export const BYTE_CHAT_TEMPLATE = `{%- if tools %}{{ '${BYTE_TURN_START}tools\\n' + (tools | tojson) + '${BYTE_TURN_END}\\n' }}{% endif -%}
{%- for message in messages -%}
{{ '${BYTE_TURN_START}' + message['role'] + '\\n' }}
{%- if message['content'] %}{{ message['content'] }}{% endif -%}
{%- if message['tool_calls'] %}{{ message['tool_calls'] | tojson }}{% endif -%}
{{ '${BYTE_TURN_END}\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '${BYTE_TURN_START}assistant\\n' }}{% endif -%}`;

/** Special texts of that template: none begins or ends a whole prompt. */
export const BYTE_BOS = "";
export const BYTE_EOS = BYTE_TURN_END;
