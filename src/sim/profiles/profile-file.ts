import { z } from "zod";
import { CgnError } from "../../core/errors.ts";
import type { EngineProfile } from "../model/profile.ts";

const ms = z.number().nonnegative();
const link = z.strictObject({ gbPerS: z.number().positive(), latencyMs: ms }).readonly();

/** A profile file: one JSON object. What is measured and what is cited says so, with how far it may be off. */
const profileSchema = z.strictObject({
  name: z.string().min(1),
  about: z.string().min(1).optional(),
  kind: z.enum(["measured", "cited", "assumed"]),
  source: z.string().min(1),
  errorPercent: z.number().nonnegative(),
  gpus: z.number().int().positive().optional(),
  stepMs: ms,
  prefillMsPerToken: ms,
  prefillMsPerPair: ms.optional(),
  narrowChunks: z.strictObject({ tokens: z.number().int().positive(), msPerPair: ms }).readonly().optional(),
  decodeMsPerSequence: ms,
  decodeStepMs: z
    .array(z.strictObject({ sequences: z.number().int().positive(), ms }).readonly())
    .min(1)
    .refine((steps) => steps.every(({ sequences }, i) => i === 0 || sequences > steps[i - 1]!.sequences), {
      message: "must be in ascending order of sequences",
    })
    .readonly()
    .optional(),
  contextMsPerToken: ms,
  requestMs: ms.optional(),
  kvBytesPerToken: z.number().positive().optional(),
  deviceKvBytes: z.number().positive().optional(),
  tiers: z
    .strictObject({
      host: link.optional(),
      disk: link.optional(),
      shared: link.optional(),
      transfer: link.optional(),
    })
    .readonly()
    .optional(),
});

/**
 * Read a profile file's text.
 * @param path for the message
 * @throws CgnError BAD_INVOCATION that names each wrong member
 */
export function parseProfile(text: string, path: string): EngineProfile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (e) {
    throw unusable(path, `it is no JSON (${e instanceof Error ? e.message : String(e)})`);
  }
  const result = profileSchema.safeParse(value);
  if (!result.success) {
    const problems = result.error.issues.map(({ path: at, message }) => `${at.join(".") || "the file"}: ${message}`);
    throw unusable(path, problems.join("; "));
  }
  return result.data as EngineProfile;
}

/** The file's text, as `parseProfile` reads it. */
export function formatProfile(profile: EngineProfile): string {
  return `${JSON.stringify(profile, undefined, 2)}\n`;
}

function unusable(path: string, problem: string): CgnError {
  return new CgnError(
    "BAD_INVOCATION",
    `Cannot read profile ${path}: ${problem}. cgn sim fit writes one that is right`,
    { path },
  );
}
