import { BYTE_CHAT_TEMPLATE, BYTE_EOS } from "../../../prompt/byte-template.ts";
import type { SimOptions } from "../sim-options.ts";
import { VOCABULARY } from "./llama-read.ts";
import { defaultSettings } from "./llama-settings.ts";

/** `/v1/models` and `/models`: Ollama's list and OpenAI's in one. */
export function llamaModels(options: SimOptions, created: number): object {
  const [name, ...others] = options.models;
  const details = {
    parent_model: "",
    format: "gguf",
    family: "",
    families: [""],
    parameter_size: "",
    quantization_level: "",
  };
  const known = {
    name,
    model: name,
    modified_at: "",
    size: "",
    digest: "",
    type: "model",
    description: "",
    tags: [""],
    capabilities: ["completion"],
    parameters: "",
    details,
  };
  const meta = {
    vocab_type: 2,
    n_vocab: VOCABULARY,
    n_ctx: options.maxModelTokens,
    n_ctx_train: options.maxModelTokens,
    n_embd: 576,
    n_params: 134_515_008,
    size: 96_576_768,
    ftype: "Q4_1",
  };
  const entry = {
    id: name,
    aliases: [name, ...others],
    tags: [],
    object: "model",
    architecture: { input_modalities: ["text"], output_modalities: ["text"] },
    created,
    owned_by: "llamacpp",
    meta,
  };
  return { models: [known], object: "list", data: [entry] };
}

const NO_CAPS = {
  supports_object_arguments: false,
  supports_parallel_tool_calls: false,
  supports_preserve_reasoning: false,
  supports_reasoning_effort: false,
  supports_string_content: true,
  supports_system_role: true,
  supports_tool_calls: false,
  supports_tools: false,
  supports_typed_content: false,
};

/** `/props`. What no llama-server has: `simulated`, by which a router knows the vocabulary. */
export function llamaProps(options: SimOptions, slots: number): object {
  return {
    default_generation_settings: { params: defaultSettings(), n_ctx: options.maxModelTokens },
    total_slots: slots,
    model_alias: options.models[0],
    model_ftype: "Q4_1",
    model_path: options.modelPath,
    modalities: { vision: false, video: false, audio: false },
    media_marker: "<__media__>",
    endpoint_slots: options.llama?.slotsEndpoint !== false,
    endpoint_props: options.llama?.propsEndpoint === true,
    endpoint_metrics: options.metrics,
    ui: true,
    ui_settings: {},
    chat_template: BYTE_CHAT_TEMPLATE,
    chat_template_caps: NO_CAPS,
    bos_token: "",
    eos_token: BYTE_EOS,
    build_info: options.version,
    is_sleeping: false,
    cors_proxy_enabled: false,
    simulated: true,
  };
}
