import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { authorityProblem, createAuthority, type Issued, issueCertificate } from "../access/certificates.ts";
import { CgnError } from "../core/errors.ts";
import { isHost } from "../engines/address.ts";
import type { Command, Option } from "./command.ts";

const DIR = {
  type: "string",
  value: "DIR",
  about: "folder of the authority: ca.crt, and ca.key, which is a secret",
  default: "pki",
} as const satisfies Option;
const MAX_DAYS = 36_500;

/** `cgn pki init`: a certificate authority of one's own. */
export const pkiInitCommand: Command = {
  name: "pki init",
  about: "make a certificate authority for the daemons of a cluster",
  examples: ["cgn pki init", "cgn pki init --dir /etc/cognitora/pki --name 'cgn CA of prod'"],
  options: {
    dir: DIR,
    name: { type: "string", value: "NAME", about: "its name", default: "cgn CA" },
    days: { type: "number", value: "DAYS", about: "how long it is valid", default: 3_650, min: 1, max: MAX_DAYS },
  },
  async run({ options }, cli) {
    const dir = resolve(cli.cwd, String(options["dir"]));
    const validity = { from: new Date(cli.clock.wall()), days: Number(options["days"]) };
    writePair(dir, "ca", createAuthority(String(options["name"]), validity));
    cli.out(
      `${join(dir, "ca.crt")} goes to every host; ${join(dir, "ca.key")} to none. Next: cgn pki issue NAME --host ADDRESS`,
    );
    return 0;
  },
};

/** `cgn pki issue NAME`: a certificate for one host. */
export const pkiIssueCommand: Command = {
  name: "pki issue",
  about: "make a certificate for a host, which its daemons serve with and show to others",
  examples: ["cgn pki issue gpu1 --host gpu1.lan --host 10.0.0.5", "cgn pki issue gpu1 --days 90 --out certs"],
  positionals: [{ name: "NAME", about: "of the files, and one of the host's names", required: true }],
  options: {
    dir: DIR,
    host: {
      type: "string[]",
      value: "NAME|ADDRESS",
      about: "by what others reach it, besides NAME and localhost. May be repeated",
    },
    days: { type: "number", value: "DAYS", about: "how long it is valid", default: 397, min: 1, max: MAX_DAYS },
    out: { type: "string", value: "DIR", about: "folder for it; by default the authority's" },
  },
  async run({ options, positionals }, cli) {
    const name = positionals[0] ?? "";
    if (!isHost(name) || name.includes(":") || name === "ca") {
      const should =
        "Use letters, digits, hyphens and dots, as in gpu1.lan; further names and addresses go with --host";
      throw new CgnError("BAD_INVOCATION", `Cannot issue for "${name}": it is no host's name. ${should}`, { name });
    }
    const others = (options["host"] as readonly string[] | undefined) ?? [];
    const wrong = others.find((host) => !isHost(host.replace(/^\*\./, "")));
    if (wrong !== undefined) {
      const should = "Write one name (gpu1.lan, *.lan) or address (10.0.0.5, fd00::5), without a scheme and a port";
      const message = `Cannot issue for --host "${wrong}": it is no name or address of a host. ${should}`;
      throw new CgnError("BAD_INVOCATION", message, { host: wrong });
    }
    const dir = resolve(cli.cwd, String(options["dir"]));
    const out = options["out"] === undefined ? dir : resolve(cli.cwd, String(options["out"]));
    const hosts = [...new Set([name, ...others, "localhost", "127.0.0.1"])];
    const validity = { from: new Date(cli.clock.wall()), days: Number(options["days"]) };
    const [cert, key] = writePair(out, name, issueCertificate(readAuthority(dir), hosts, validity));
    cli.out(
      `[security]\nca_file = "${join(dir, "ca.crt")}"\nclient_ca_file = "${join(dir, "ca.crt")}"\ncert_file = "${cert}"\nkey_file = "${key}"\nrequire_mtls = true`,
    );
    return 0;
  },
};

/** @throws CgnError TLS_INVALID */
function readAuthority(dir: string): Issued {
  try {
    const found = { cert: readFileSync(join(dir, "ca.crt"), "utf8"), key: readFileSync(join(dir, "ca.key"), "utf8") };
    const problem = authorityProblem(found);
    if (problem !== undefined) throw new Error(`in ${dir}, ${problem}`);
    return found;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `Cannot issue a certificate: ${why}. Make an authority with cgn pki init, or name its folder with --dir`;
    throw new CgnError("TLS_INVALID", message, { dir }, { cause });
  }
}

/** Nothing is written over: a key that is lost cannot be made again. @throws CgnError STORAGE_UNUSABLE */
function writePair(dir: string, name: string, { cert, key }: Issued): readonly [string, string] {
  const files = [join(dir, `${name}.crt`), join(dir, `${name}.key`)] as const;
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    writeFileSync(files[1], key, { mode: 0o600, flag: "wx" });
    writeFileSync(files[0], cert, { mode: 0o644, flag: "wx" });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `Cannot write ${files[0]} and its key: ${why}. Move what is there away, or name another folder`;
    throw new CgnError("STORAGE_UNUSABLE", message, { dir }, { cause });
  }
  return files;
}
