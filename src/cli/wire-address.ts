import { CgnError } from "../core/errors.ts";
import type { WireAddress } from "../wire/transport.ts";

/** Read `http://HOST:PORT` or `unix:PATH`. @throws CgnError BAD_INVOCATION */
export function wireAddress(text: string): WireAddress {
  if (text.startsWith("unix:")) return { uds: text.slice("unix:".length) };
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return { url: text.replace(/\/+$/, "") };
  throw new CgnError(
    "BAD_INVOCATION",
    `Cannot read the address "${text}": it is neither a URL nor unix:PATH. Write for example http://127.0.0.1:7071`,
    { text },
  );
}
