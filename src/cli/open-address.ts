import type { Log } from "../core/log.ts";

const LOOPBACK = /^(localhost|::1|\[::1\]|127\.\d+\.\d+\.\d+)$/;

/** Without `[auth]` whoever reaches the address may use the engines: say it once, at the start. */
export function warnOfOpenAddress(
  { host, port }: { readonly host: string; readonly port: number },
  log: Log,
  auth: { readonly enabled: boolean } = { enabled: false },
): void {
  if (auth.enabled || LOOPBACK.test(host)) return;
  log.warn("Anyone who reaches this address may use the engines: requests are not authenticated", {
    listen: `${host}:${port}`,
    remedy: `Listen on loopback (--listen 127.0.0.1:${port}, or router.listen_http), or set [auth].enabled with a keys file (cgn key new)`,
  });
}
