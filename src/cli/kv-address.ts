import { isAbsolute, resolve } from "node:path";
import { SILENT_LOG } from "../core/log.ts";
import { connectKv, type KvClient } from "../wire/kv-client.ts";
import { openTls, type WireTls } from "../wire/tls.ts";
import { type CliContext, CONFIG_OPTIONS, type Option, type Values } from "./command.ts";
import { loadForCommand } from "./load-config.ts";
import { wireAddress } from "./wire-address.ts";

/** Options of commands that ask a running kvcached. */
export const KV_ADDRESS_OPTIONS = {
  uds: { type: "string", value: "PATH", about: "kvcached's Unix socket (default: [kv].uds of the configuration)" },
  url: { type: "string", value: "URL", about: "kvcached's TCP address instead, for example http://127.0.0.1:7071" },
  json: { type: "boolean", about: "print JSON" },
  ...CONFIG_OPTIONS,
} as const satisfies Record<string, Option>;

/** Reach the kvcached that the options name. */
export function kvClientFor(options: Values, cli: CliContext): KvClient {
  const { url, uds } = options;
  if (typeof url === "string")
    return connectKv({ address: wireAddress(url), clock: cli.clock, ...tlsFor(url, options, cli) });
  const path =
    typeof uds === "string" ? (isAbsolute(uds) ? uds : resolve(cli.cwd, uds)) : loadForCommand(options, cli).kv.uds;
  return connectKv({ address: { uds: path }, clock: cli.clock });
}

/** For `https:` the CA and the certificate of the configuration. */
function tlsFor(url: string, options: Values, cli: CliContext): { readonly tls?: WireTls } {
  if (!url.startsWith("https:")) return {};
  const tls = openTls(loadForCommand(options, cli).security, { clock: cli.clock, log: SILENT_LOG });
  // One question, one reading.
  tls.close();
  return { tls };
}

/** Columns padded to their widest cell. */
export function textTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => (row[i] ?? "").length)));
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
