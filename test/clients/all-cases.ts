import { anthropicNodeCases } from "./anthropic-node.ts";
import type { Case } from "./cases.ts";
import { curlCases } from "./curl.ts";
import type { ClientFleet } from "./fleet.ts";
import { openaiNodeCases } from "./openai-node.ts";

/** What needs no Python: OpenAI's and Anthropic's SDKs for Node, and `curl`. */
export function allCases(fleet: ClientFleet): Case[] {
  return [...openaiNodeCases(fleet), ...anthropicNodeCases(fleet), ...curlCases(fleet)];
}
