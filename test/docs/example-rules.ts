import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./markdown.ts";
import type { Place } from "./place.ts";

/** Examples that are not run, and why. */
export const SKIPPED: Readonly<Record<string, string>> = {
  "cgn demo": "network: installs a real engine; npm run test:first-run runs it",
  "cgn demo --once": "the same",
  "cgn init": "asks at a terminal; src/cli/init has its tests",
  "cgn run qwen3-8b": "a conversation at a terminal",
  "cgn run ./model.gguf": "a real model; test/cli-process.test.ts",
  "kill -HUP PID": "a placeholder; test/e2e/reload.test.ts sends it",
  "cgn render --config cgn.toml --format k8s --image registry.example/vllm:mine | kubectl apply -f -": "kubernetes",
  "cgn check --host --fix": "says what this host lacks, and so ends otherwise on each",
  "source <(cgn completion zsh)": "zsh; src/cli/shell-completion.test.ts",
  "cgn man > cgn.1 && man -l cgn.1": "a pager; src/cli has the page's test",
  "cgn config set router.score_weights.power=0.3": "several routers with one etcd; test/cluster",
  "cgn config set router.policy=weighted router.admission.max_queue=500": "the same",
  "cgn config set router.admission.ttft_slo=none": "the same",
  "cgn config unset router.policy": "the same",
  "cgn config unset router.score_weights.kv router.score_weights.power": "the same",
  "cgn sim fit --url http://127.0.0.1:8000 --out my-gpu.json": "minutes; docs/simulator.md runs the quick one",
};

/** Exit codes that are right though they are not 0. */
export const EXITS: Readonly<Record<string, readonly number[]>> = {
  "cgn drain gpu-a": [10],
  "cgn drain gpu-a/qwen --timeout 60": [10],
  // None may have ended by itself.
  "cgn logs qwen --run bad": [0, 2],
  // Several models: it asks which.
  "cgn run --url http://10.0.0.2:8080 < question.txt": [2],
  "cgn doctor": [0, 1],
  "cgn doctor --all": [0, 1],
  "cgn doctor --json | jq '.found[] | select(.level == \"error\")'": [0, 1],
};

/** Commands that ask a running `cgn up`. */
const ASKING = [
  "run",
  "reload",
  "role",
  "logs",
  "load",
  "unload",
  "status",
  "top",
  "explain",
  "drain",
  "cordon",
  "uncordon",
  "usage",
  "sim fit",
  "config set",
  "config unset",
  "config list",
];

export function NEEDS(name: string, line: string): "alone" | "asking" {
  const asks =
    ASKING.includes(name) || (name.startsWith("kv ") && name !== "kv verify") || line.startsWith("cgn init --url");
  return asks ? "asking" : "alone";
}

/** Does it go on until it is stopped? */
export function SERVES(name: string, line: string): boolean {
  if (!line.startsWith("cgn ")) return false;
  if (["up", "router", "kvcached", "sim", "recipe up", "demo"].includes(name)) return !line.includes("--once");
  if (name === "agent") return !line.includes("--end-kept");
  return (name === "top" && !line.includes("--once")) || line.includes("--follow") || name === "kv capture";
}

/** What answers when a line serves; undefined: nothing is to be waited for. */
export function URL_OF(line: string): string | undefined {
  if (/^cgn (?:up|recipe up|router)\b/.test(line)) return "http://127.0.0.1:9091/healthz";
  if (/^cgn agent\b/.test(line)) return "http://127.0.0.1:9092/healthz";
  if (/^cgn kvcached\b/.test(line)) return "http://127.0.0.1:7071/healthz";
  const port = /--port (\d+)/.exec(line)?.[1] ?? "8000";
  return /^cgn sim\b/.test(line) ? `http://127.0.0.1:${port}/health` : undefined;
}

/** Addresses of other hosts, ids and folders of an example as they are here. */
export const asPrinted = (line: string): string =>
  line
    .replaceAll(/\b10\.0\.0\.\d\b/g, "127.0.0.1")
    .replace("127.0.0.1:9191", "127.0.0.1:9091")
    .replace("127.0.0.1:11434", "127.0.0.1:8000")
    .replace("3f0c…", "my-request-1")
    .replaceAll("/tmp/kv.sock", "/run/cognitora/kv.sock");

/** Words as a shell would make them; no more than quotes. */
export const wordsOf = (line: string): string[] =>
  [...line.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)].map(([word]) =>
    // A quoted key inside a word (models."NAME") is the shell's to take away too.
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"),
  );

const ENGINE = (node: string, model: string, port: number, more = ""): string => `
[[engines]]
kind = "vllm"
node_id = "${node}"
model = "${model}"
url = "http://127.0.0.1:${port}"
${more}`;

/** The configuration that examples ask: nodes and models by the names that they use. */
export const FLEET = `[router]
listen_http = "127.0.0.1:8080"

[agent]
node_id = "node0"

[auth]
api_keys_file = "keys"

[engine.vllm]
extra_args = ["--sim-profile", "instant"]

[models.qwen]
tokenizer = "bytes"
[models."qwen3-8b"]
tokenizer = "bytes"
[models.m]
tokenizer = "bytes"
${ENGINE("gpu-a", "qwen", 8010, 'kv_offload = "nixl"')}${ENGINE("gpu-b", "qwen", 8011, 'kv_offload = "nixl"')}
${ENGINE("node1", "qwen3-8b", 8012, 'ttl = "10m"')}${ENGINE("node2", "m", 8000)}`;

/** Files that examples read. */
export function prepare(place: Place): void {
  const file = (name: string, text: string): void => writeFileSync(join(place.dir, name), text);
  place.write("cgn.toml", FLEET);
  const side = (role: string, port: number): string =>
    `[models.qwen]\ntokenizer = "bytes"\n${ENGINE(role, "qwen", port, `kv_offload = "nixl"\nrole = "${role}"`)}`;
  place.write("prefill.toml", side("prefill", 8001));
  place.write("decode.toml", side("decode", 8002));
  const log = place.here("/var/log/cgn/requests.jsonl");
  for (const name of ["requests.jsonl", "old.jsonl"]) cpSync(log, join(place.dir, name));
  file("new.jsonl", readFileSync(log, "utf8").replaceAll('"sim"', '"qwen3-8b"'));
  file("request.json", JSON.stringify({ model: "m", messages: [{ role: "user", content: "Once upon a time" }] }));
  file("question.txt", "Why is the sky blue?\n");
  file("old.key", "cgn-0123456789abcdef0123456789abcdef\n");
  file("bob.key", "correct-horse-battery-staple\n");
  file("keys", "");
  mkdirSync(join(place.env["HOME"] ?? "", ".config", "fish", "completions"), { recursive: true });
  cpSync(join(ROOT, "profiles", "h100-8b.json"), join(place.dir, "my-gpu.json"));
  file("ops.key", "cgn-0123456789abcdef0123456789abcdef\n");
  const fixtures = join(ROOT, "test", "fixtures");
  cpSync(join(fixtures, "models", "smollm2"), place.here("/models/m"), { recursive: true });
  cpSync(join(fixtures, "models", "smollm2"), place.here("/models/qwen3"), { recursive: true });
  cpSync(join(fixtures, "vllm", "sha256_cbor-seed0-int"), join(place.dir, "capture"), { recursive: true });
}
