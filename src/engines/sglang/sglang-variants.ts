import type { Role } from "../../core/engine-kind.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import type { EngineVariant } from "../variant.ts";

const PROGRAM = "sglang";

const onHicache = (offload: KvOffload): boolean => offload === "hicache";
const onDecode = (offload: KvOffload, role: Role): boolean => offload === "hicache" && role === "decode";

function hicache(
  name: string,
  table: Record<string, unknown>,
  forCells: NonNullable<EngineVariant["for"]> = onHicache,
): EngineVariant {
  return { name, program: PROGRAM, section: { hicache: table }, for: forCells };
}

/** The ways of writing `[engine.sglang]` that real SGLangs are asked about. */
export const sglangVariants: readonly EngineVariant[] = [
  { name: "default", program: PROGRAM },
  { name: "pages-of-64", program: PROGRAM, blockTokens: 64 },
  {
    name: "written",
    program: PROGRAM,
    model: { dtype: "bfloat16", extraArgs: ["--max-running-requests", "64", "--chunked-prefill-size", "4096"] },
    section: { context_length: 4096, mem_fraction_static: 0.7 },
  },
  { name: "data-parallel", program: PROGRAM, model: { tp: 2, extraArgs: ["--dp-size", "2"] } },
  hicache("hicache-size", { size_gib: 40 }),
  hicache("hicache-direct", { io_backend: "direct", mem_layout: "page_first_direct" }),
  hicache("hicache-selective", { write_policy: "write_through_selective", mem_layout: "layer_first" }),
  hicache("hicache-file", { storage: "file" }),
  hicache("hicache-nixl", { storage: "nixl" }, (offload) => offload !== "none"),
  hicache("hicache-mooncake", { storage: "mooncake", write_policy: "write_back" }),
  hicache("hicache-decode-radix", { decode_radix: true }, onDecode),
  hicache("hicache-decode-radix-file", { decode_radix: true, storage: "file" }, onDecode),
];
