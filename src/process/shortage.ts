/**
 * errno codes of a host or process that has run out of something that comes back: descriptors, processes, memory, ports. What
 * failed with one of them says nothing about what was asked, and is worth another try.
 */
const SHORTAGES: ReadonlySet<string> = new Set(["EMFILE", "ENFILE", "EAGAIN", "ENOMEM", "ENOBUFS", "EADDRNOTAVAIL"]);

/** The errno code of a shortage, looked for along the causes; undefined for any other failure. */
export function shortageOf(error: unknown): string | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if ("code" in at && typeof at.code === "string" && SHORTAGES.has(at.code)) return at.code;
  }
  return undefined;
}

/** Did it fail for want of something that comes back? */
export const isShortage = (error: unknown): boolean => shortageOf(error) !== undefined;
