import assert from "node:assert/strict";
import { nodeOf, textOf } from "../faults/expect.ts";
import { CHAT, post, type RawAnswer, STREAMED } from "../faults/raw-client.ts";
import { DONE, TEXT } from "../faults/raw-engine.ts";
import type { PairRig } from "./rig.ts";

/** Who computed the prompt; undefined: it was not split. */
export const prefillOf = ({ head }: RawAnswer): string | undefined => /^x-cgn-prefill-node: (.*)$/im.exec(head)?.[1];

/** Get a whole answer from these two (`undefined`: not split). */
export async function pairAnswers(
  rig: PairRig,
  prefill: string | undefined,
  decode: string | RegExp,
  bytes: string = post(CHAT),
): Promise<RawAnswer> {
  const answer = await (await rig.ask(bytes)).answer();
  assert.deepEqual([answer.status, answer.whole], [200, true], answer.head + answer.body);
  assert.equal(prefillOf(answer), prefill, answer.head);
  assert.match(nodeOf(answer) ?? "", typeof decode === "string" ? new RegExp(`^${decode}$`) : decode);
  assert.equal(JSON.parse(answer.body).choices[0].message.content, TEXT);
  return answer;
}

/** The same, streamed. */
export async function pairStreams(rig: PairRig, prefill: string, decode: RegExp = /^d/): Promise<RawAnswer> {
  const answer = await (await rig.ask(post(STREAMED))).answer();
  assert.deepEqual([answer.status, answer.whole], [200, true], answer.head + answer.body);
  assert.equal(prefillOf(answer), prefill, answer.head);
  assert.match(nodeOf(answer) ?? "", decode);
  assert.equal(textOf(answer.body), TEXT);
  assert(answer.body.endsWith(DONE), answer.body);
  return answer;
}
