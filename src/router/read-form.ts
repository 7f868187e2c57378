import { CgnError } from "../core/errors.ts";

/** The `model` field of a form, and where its value stands in the body. */
export interface FormModel {
  readonly model: string;
  readonly start: number;
  readonly end: number;
}

/** Fields and files of one form; engines' own readers take no more (Starlette: 1,000). */
const MAX_PARTS = 1_000;
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_MODEL_BYTES = 1_024;

const HEAD_END = Buffer.from("\r\n\r\n");
const CRLF = Buffer.from("\r\n");

/**
 * Find `model` in a form (RFC 7578), wherever it stands: files are stepped over by their boundary, not read, so what is in them is never
 * taken for a field.
 *
 * @returns undefined for a form without that field, or one that cannot be read: the engine will say so
 * @throws CgnError REQUEST_INVALID where it stands twice: engines differ on which counts
 */
export function findFormModel(body: Buffer, contentType: string): FormModel | undefined {
  const boundary = boundaryOf(contentType);
  if (boundary === undefined) return undefined;
  const delimiter = Buffer.from(`--${boundary}`, "latin1");
  const between = Buffer.concat([CRLF, delimiter]);
  let at = 0;
  if (!body.subarray(0, delimiter.length).equals(delimiter)) {
    const preamble = body.indexOf(between);
    if (preamble < 0) return undefined;
    at = preamble + CRLF.length;
  }
  let found: FormModel | undefined;
  for (let parts = 0; parts < MAX_PARTS; parts++) {
    const head = at + delimiter.length;
    const end = body.indexOf(between, head);
    if (end < 0) break;
    const start = valueStart(body, head, end);
    if (start !== undefined && nameOf(body.toString("latin1", head, start)) === "model") {
      if (found !== undefined) throw twice();
      if (end - start <= MAX_MODEL_BYTES) found = { model: body.toString("utf8", start, end), start, end };
    }
    at = end + CRLF.length;
  }
  return found;
}

/** Where a part's value begins; undefined for one without a head, or with an endless one. Nothing far is searched. */
function valueStart(body: Buffer, head: number, end: number): number | undefined {
  const part = body.subarray(head, Math.min(end + HEAD_END.length, head + MAX_HEAD_BYTES));
  const at = part.indexOf(HEAD_END);
  // An empty value: its head's end is the delimiter's beginning.
  return at < 0 ? undefined : Math.min(head + at + HEAD_END.length, end);
}

function boundaryOf(contentType: string): string | undefined {
  const found = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(contentType);
  return found?.[1] ?? found?.[2];
}

/** The field's name; undefined for a file. */
function nameOf(head: string): string | undefined {
  const disposition = /^content-disposition:\s*form-data(.*)$/im.exec(head)?.[1];
  if (disposition === undefined || /;\s*filename\*?=/i.test(disposition)) return undefined;
  const found = /;\s*name=(?:"([^"]*)"|([^\s;"]+))/i.exec(disposition);
  return found?.[1] ?? found?.[2];
}

function twice(): CgnError {
  const message = 'Cannot read the request: its form has "model" twice. Name one; GET /v1/models lists them';
  return new CgnError("REQUEST_INVALID", message, { param: "model" }) as CgnError;
}
