import { type Choices, OFFLOAD_REASONS } from "./choices.ts";

/** TOML's basic string is JSON's, but for DEL. */
const text = (value: string): string => JSON.stringify(value).replaceAll("\u007f", "\\u007f");

const value = (of: string | number): string => (typeof of === "number" ? String(of) : text(of));

/** A commented `cgn.toml` for these choices. */
export function firstFile(choices: Choices): string {
  return `${[head(choices), router(choices), agent(choices), model(choices), engine(choices)]
    .filter((part) => part !== "")
    .join("\n\n")}\n`;
}

function head({ url }: Choices): string {
  const what = url === undefined ? "One engine that cgn starts and keeps" : "An engine that somebody else runs";
  return [
    `# ${what}, behind one endpoint. Written by \`cgn init\`; change it as you like.`,
    "# What is wrong with it: `cgn check --host`. Every key: `cgn config explain`, and docs/configuration.md of the package.",
  ].join("\n");
}

function router({ port, adminPort }: Choices): string {
  return [
    "[router]",
    "# Where clients connect. 127.0.0.1 is this machine only; 0.0.0.0 lets others in: then ask for keys ([auth], `cgn key new`).",
    `listen_http = ${text(`127.0.0.1:${port}`)}`,
    "# The dashboard, metrics and the commands `cgn status`, `cgn top`, `cgn explain`.",
    `listen_admin = ${text(`127.0.0.1:${adminPort}`)}`,
  ].join("\n");
}

function agent({ url, engine: { spawns } }: Choices): string {
  if (url !== undefined || !spawns) return "";
  return [
    "[agent]",
    "# The command is rendered for what this host has: its GPUs, else its processor.",
    'platform = "auto"',
  ].join("\n");
}

function model({ name, target, gpus }: Choices): string {
  const lines = ["# The name that clients write as `model`.", `[models.${text(name)}]`];
  if (target !== undefined && /^[./~]/.test(target)) lines.push(`path = ${text(target)}`);
  else if (target !== undefined) {
    lines.push("# A name on the Hugging Face hub: downloaded at the first start where it is not in this host's cache.");
    lines.push(`hf_repo = ${text(target)}`);
  }
  if (gpus.length > 1) {
    lines.push("# The model is spread over so many GPUs (tensor parallelism).");
    lines.push(`tp = ${gpus.length}`);
  }
  if (target !== undefined) {
    lines.push("# Longest prompt and answer together, in tokens. Not written: what the engine takes of the model.");
    lines.push("# max_model_len = 32768");
  }
  return lines.join("\n");
}

function engine({
  engine: { kind, section, spawns },
  options,
  url,
  enginePort,
  gpus,
  offload,
  hasGpus,
}: Choices): string {
  const lines = ["[engine]", `kind = ${text(kind)}`];
  if (url !== undefined) {
    lines.push(`url = ${text(url)}`);
    if (spawns)
      lines.push("# It runs already: cgn watches it and routes to it, and never starts or ends it.", "spawn = false");
  } else {
    lines.push("# Where the engine itself listens; clients use the endpoint above.");
    lines.push(`url = ${text(`http://127.0.0.1:${enginePort}`)}`);
    if (gpus.length > 0) lines.push("# Which GPUs it gets (`nvidia-smi -L`).", `gpus = [${gpus.join(", ")}]`);
    else if (hasGpus) lines.push("# It gets no GPU of its own: say which with gpus = [0].");
    lines.push(`# Where the KV cache goes: ${OFFLOAD_REASONS[offload]}.`);
    lines.push("# What else there is, for which engine: `cgn table`.");
    lines.push(`kv_offload = ${text(offload)}`);
  }
  const own = Object.entries(options);
  if (own.length > 0) lines.push("", `[engine.${section}]`, ...own.map(([key, of]) => `${key} = ${value(of)}`));
  return lines.join("\n");
}
