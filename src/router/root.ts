import { adapterRoot } from "../core/prefix-knowledge.ts";
import type { ModelGroup } from "./fleet.ts";
import type { ReadRequest } from "./read.ts";

/** What an adapter computes is cached apart: its prompts have a root of their own. */
export function rootOf({ root, json, model = "" }: ReadRequest, { workers }: ModelGroup): string {
  if (workers.some(({ adapters }) => adapters?.includes(model))) return adapterRoot(root, model);
  const named = json?.["lora_path"];
  const reads =
    typeof named === "string" && named !== "" && workers.some(({ traits }) => traits.adapterJoin !== undefined);
  return reads ? adapterRoot(root, named) : root;
}
