import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { SILENT_LOG } from "../core/log.ts";
import { openTls } from "../wire/tls.ts";
import type { CliContext } from "./command.ts";
import { pkiInitCommand, pkiIssueCommand } from "./pki.ts";
import { systemClock } from "./system-clock.ts";

const cwd = mkdtempSync(join(tmpdir(), "cgn-pki-"));
afterAll(() => rmSync(cwd, { recursive: true }));
const said: string[] = [];
const clock = systemClock();
const cli = { cwd, clock, out: (text: string) => said.push(text), err: () => {} } as unknown as CliContext;
const init = (options: object = {}) =>
  pkiInitCommand.run({ options: { dir: "pki", name: "CA", days: 10, ...options }, positionals: [] }, cli);
const issue = (name: string, options: object = {}) =>
  pkiIssueCommand.run({ options: { dir: "pki", days: 10, ...options }, positionals: [name] }, cli);

describe("cgn pki", () => {
  it("makes an authority and certificates that [security] takes, keys for nobody else to read", async () => {
    expect(await init()).toBe(0);
    expect(await issue("gpu1", { host: ["10.0.0.5"] })).toBe(0);
    const dir = join(cwd, "pki");
    for (const key of ["ca.key", "gpu1.key"]) expect(statSync(join(dir, key)).mode & 0o777).toBe(0o600);
    const made = new X509Certificate(readFileSync(join(dir, "gpu1.crt")));
    expect(made.subjectAltName).toBe("DNS:gpu1, IP Address:10.0.0.5, DNS:localhost, IP Address:127.0.0.1");
    expect(said.at(-1)).toContain(`cert_file = "${join(dir, "gpu1.crt")}"`);
    const files = { caFile: "ca.crt", clientCaFile: "ca.crt", certFile: "gpu1.crt", keyFile: "gpu1.key" };
    const paths = Object.fromEntries(Object.entries(files).map(([name, file]) => [name, join(dir, file)]));
    const tls = openTls({ ...paths, requireMtls: true }, { clock, log: SILENT_LOG });
    expect(tls.serverOptions()).toMatchObject({ required: true });
    tls.close();
  });

  it("writes nothing over, and says what it needs", async () => {
    await expect(init()).rejects.toMatchObject({ code: "STORAGE_UNUSABLE" });
    await expect(issue("gpu1")).rejects.toMatchObject({ code: "STORAGE_UNUSABLE" });
    await expect(issue("../x")).rejects.toMatchObject({ code: "BAD_INVOCATION" });
    await expect(issue("ca")).rejects.toMatchObject({ code: "BAD_INVOCATION" });
    for (const name of ["bad host", "gpu1:7070", "10.0.0.256", "-a", "a..b", ""])
      await expect(issue(name)).rejects.toMatchObject({ code: "BAD_INVOCATION" });
    for (const host of ["bad host", "http://gpu1", "gpu1:7070", "[fd00::5]", "fe80::1%eth0", "10.0.0.256", "a,b", ""])
      await expect(issue("gpu3", { host: ["gpu3.lan", host] })).rejects.toMatchObject({
        code: "BAD_INVOCATION",
        message: `Cannot issue for --host "${host}": it is no name or address of a host. Write one name (gpu1.lan, *.lan) or address (10.0.0.5, fd00::5), without a scheme and a port`,
      });
    expect(await issue("gpu3", { host: ["*.lan", "my_host", "xn--bcher-kva.example", "fd00::5"] })).toBe(0);
    writeFileSync(join(cwd, "ca.crt"), "x");
    writeFileSync(join(cwd, "ca.key"), "x");
    await expect(issue("gpu2", { dir: "." })).rejects.toMatchObject({ code: "TLS_INVALID" });
    await expect(issue("gpu2", { dir: "nowhere" })).rejects.toMatchObject({ code: "TLS_INVALID" });
  });
});
