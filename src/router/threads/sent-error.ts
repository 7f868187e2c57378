import { CgnError, type Code, type DetailsOf, toCgnError } from "../../core/errors.ts";
import type { SentError, Told } from "./protocol.ts";

export function sentError(e: unknown): SentError {
  const { code, message, details, cause } = toCgnError(e);
  return { code, message, details, stack: cause instanceof Error ? cause.stack : undefined };
}

/** The error on the other side of a port. A bug's stack is the one of where it happened. */
export function receivedError({ code, message, details, stack }: SentError): CgnError {
  const cause = stack === undefined ? undefined : Object.assign(new Error(message), { stack });
  return new CgnError(code as Code, message, details as DetailsOf<Code>, { cause });
}

/** @throws CgnError where that is what was told */
export function takeTold<T>(told: Told<T>): T {
  if ("error" in told) throw receivedError(told.error);
  return told.ok;
}
