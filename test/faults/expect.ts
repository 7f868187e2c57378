import assert from "node:assert/strict";
import { CHAT, post, type RawAnswer, STREAMED } from "./raw-client.ts";
import { DONE, TEXT } from "./raw-engine.ts";
import type { Rig } from "./rig.ts";

/** Who answered. */
export const nodeOf = ({ head }: RawAnswer): string | undefined => /^x-cgn-node: (.*)$/im.exec(head)?.[1];

/** Ask for a whole answer and get it, from `node`. */
export async function wholeFrom(rig: Rig, node: string, bytes: string | Buffer = post(CHAT)): Promise<RawAnswer> {
  const answer = await (await rig.ask(bytes)).answer();
  isWhole(answer, node);
  return answer;
}

export function isWhole(answer: RawAnswer, node: string): void {
  assert.deepEqual([answer.status, answer.whole, nodeOf(answer)], [200, true, node], answer.head + answer.body);
  assert.equal(JSON.parse(answer.body).choices[0].message.content, TEXT);
}

/** Ask for a stream and get all of it, from `node`. */
export async function streamFrom(rig: Rig, node: string): Promise<RawAnswer> {
  const answer = await (await rig.ask(post(STREAMED))).answer();
  assert.deepEqual([answer.status, answer.whole, nodeOf(answer)], [200, true, node], answer.head + answer.body);
  assert.equal(textOf(answer.body), TEXT);
  assert(answer.body.endsWith(DONE), answer.body);
  return answer;
}

/** The events' data, in order. */
export function events(body: string): unknown[] {
  return body
    .split(/\r?\n\r?\n/)
    .filter((event) => /^data: /m.test(event) && !event.includes("[DONE]"))
    .map((event) => JSON.parse(event.replace(/^data: /, "")));
}

export function textOf(body: string): string {
  return events(body)
    .map((e) => (e as { choices?: { delta?: { content?: string } }[] }).choices?.[0]?.delta?.content ?? "")
    .join("");
}

/** One error of the router's own, with its status and code. */
export function isError(answer: RawAnswer, status: number, code: string, says: RegExp = /./): void {
  assert.equal(answer.status, status, answer.head + answer.body);
  assert(answer.whole, "its body is not whole");
  const { error, src } = JSON.parse(answer.body) as { error: { code: string; message: string }; src: string };
  assert.deepEqual([error.code, src], [code, "cgn"]);
  assert.match(error.message, says);
}

/** A stream of which `text` came, then the error as its last event, then a proper end. */
export function isBroken(answer: RawAnswer, text: string, says: RegExp): void {
  assert.deepEqual([answer.status, answer.whole], [200, true], answer.body);
  assert.equal(textOf(answer.body), text);
  const all = events(answer.body);
  const { error, src } = all.at(-1) as { error: { code: string; message: string }; src: string };
  assert.deepEqual([error.code, src], ["upstream_failed", "cgn"]);
  assert.match(error.message, says);
  assert.equal(all.filter((e) => (e as { error?: unknown }).error !== undefined).length, 1);
}
