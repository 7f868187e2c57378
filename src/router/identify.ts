import type { Access } from "../access/access.ts";
import { mayUseModel } from "../access/model-globs.ts";
import type { Subject } from "../access/subject.ts";
import { CgnError } from "../core/errors.ts";
import type { Exchange } from "./accept.ts";

export type { Subject } from "../access/subject.ts";

/**
 * Say who asks. Without keys in the configuration everybody is `anonymous`, and `Authorization` goes to the engine. A promise only
 * where a token or a chosen key must be proved.
 * @throws CgnError UNAUTHENTICATED, RATE_LIMITED, DEPENDENCY_UNREACHABLE
 */
export function identify(access: Access, { req }: Exchange): Subject | Promise<Subject> {
  return access.identify(req.headers, req.rawHeaders);
}

/** @throws CgnError FORBIDDEN for a model that this subject may not ask */
export function requireModel(subject: Subject, model: string): void {
  if (mayUseModel(subject, model)) return;
  const message = `Cannot ask model "${model}": the key of "${subject.name}" does not allow it. GET /v1/models lists those that it does`;
  throw new CgnError("FORBIDDEN", message, { param: "model" });
}
