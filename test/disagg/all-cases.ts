import { BOOTSTRAP_CASES } from "./cases-bootstrap.ts";
import { PULL_CASES, PULL_DECODE_CASES, PULL_PREFILL_CASES } from "./cases-pull.ts";
import type { PairCase } from "./rig.ts";

/** Every case of split requests, by protocol and leg. */
export const PAIR_CASES: Readonly<Record<string, readonly PairCase[]>> = {
  "vLLM, both legs": PULL_CASES,
  "vLLM, prefill leg": PULL_PREFILL_CASES,
  "vLLM, decode leg": PULL_DECODE_CASES,
  SGLang: BOOTSTRAP_CASES,
};
