import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { COMMAND_GROUPS, COMMANDS } from "./commands.ts";
import { manPage } from "./man-page.ts";
import { completionScript, SHELLS } from "./shell-completion.ts";

const has = (program: string): boolean => spawnSync(program, ["--version"]).error === undefined;

/** Run a script from a file: not every shell reads one from a socket. */
function runScript(shell: string, flags: readonly string[], script: string) {
  const dir = mkdtempSync(join(tmpdir(), "cgn-completion-"));
  const file = join(dir, "script");
  writeFileSync(file, script);
  const { status, stdout, stderr } = spawnSync(shell, [...flags, file], {
    encoding: "utf8",
    env: { ...process.env, HOME: dir },
  });
  rmSync(dir, { recursive: true });
  return { status, stdout, stderr };
}

/** What bash offers after these words; the last one is being written. */
function bashOffers(...words: readonly string[]): string[] {
  const script = `${completionScript("bash", COMMANDS, COMMAND_GROUPS)}
COMP_WORDS=(cgn ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}; _cgn; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = runScript("bash", ["--norc"], script);
  expect(stderr).toBe("");
  return stdout.trim().split("\n");
}

/** An interactive zsh at whose prompt a line is begun, and Tab pressed; what completion adds is printed in place of a list. */
const ZSH = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PROMPT=
autoload -U compinit && compinit -u -D
source "$CGN_COMPLETION"
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
  local -a found
  builtin compadd -A found "$@"
  for each in $found; do print -r -- "OFFER:$each"; done
}
done-line() { print -r -- "DONE:" }
zle -N done-line
bindkey "^X" done-line
print READY:'
while zpty -r z line; do [[ $line == READY:* ]] && break; done
zpty -w -n z "$CGN_LINE"$'\\t\\x18'
while zpty -r z line; do print -r -- "$line"; [[ $line == *DONE:* ]] && break; done
zpty -d z
`;

/** What zsh offers at the end of a line, and what it complains of. */
function zshOffers(line: string): string[] {
  const dir = mkdtempSync(join(tmpdir(), "cgn-completion-"));
  const [script, completion] = [join(dir, "script"), join(dir, "_cgn")];
  writeFileSync(script, ZSH);
  writeFileSync(completion, completionScript("zsh", COMMANDS, COMMAND_GROUPS));
  const env = { ...process.env, HOME: dir, TERM: "dumb", CGN_COMPLETION: completion, CGN_LINE: line };
  const { stdout } = spawnSync("zsh", ["-f", script], { encoding: "utf8", env, timeout: 60_000 });
  rmSync(dir, { recursive: true });
  expect(stdout).toContain("DONE:");
  return [...stdout.matchAll(/OFFER:(\S+)|(command not found: \S+)/g)].map(([, offer, fault]) => offer ?? fault!);
}

describe.runIf(has("bash"))("completionScript() for bash", () => {
  it("offers commands, the words of grouped ones, and options", () => {
    expect(bashOffers("re")).toEqual(expect.arrayContaining(["render", "replay", "recipe", "reload"]));
    expect(bashOffers("kv", "")).toEqual(expect.arrayContaining(["match", "sources", "stats", "verify"]));
    expect(bashOffers("kv", "verify", "--t")).toContain("--tokenizer");
    expect(bashOffers("render", "--config", "x.toml", "--fo")).toContain("--format");
  });

  it("offers an option's choices, and nothing else", () => {
    expect(bashOffers("up", "--log-level", "")).toEqual(["debug", "info", "warn", "error"]);
  });
});

describe("completionScript()", () => {
  it.each(SHELLS)("is read by %s without complaint, where it is installed", (shell) => {
    if (!has(shell)) return;
    const script = completionScript(shell, COMMANDS, COMMAND_GROUPS);
    const input = shell === "zsh" ? `autoload -U compinit && compinit -u -D\n${script}` : script;
    const flags = { bash: ["--norc"], zsh: ["-f"], fish: ["--no-config"] }[shell];
    const { status, stderr } = runScript(shell, flags, input);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  });

  it.runIf(has("zsh"))(
    "offers commands and choices in zsh, and has nothing to run for a value that it does not know",
    () => {
      expect(zshOffers("cgn kv ")).toEqual(expect.arrayContaining(["match", "sources", "stats", "verify"]));
      expect(zshOffers("cgn up --log-level ")).toEqual(["debug", "info", "warn", "error"]);
      expect(zshOffers("cgn check --role ")).toEqual(["both", "prefill", "decode"]);
      // HOST:PORT was read as a function of that name.
      expect(zshOffers("cgn up --listen ")).toEqual([]);
      expect(zshOffers("cgn router --agent ").join()).not.toContain("command not found");
    },
  );

  it.runIf(has("fish"))("offers commands and choices in fish", () => {
    const script = completionScript("fish", COMMANDS, COMMAND_GROUPS);
    const offers = (line: string): string => {
      return runScript("fish", ["--no-config"], `${script}\ncomplete -C '${line}'`).stdout;
    };
    expect(offers("cgn kv ")).toMatch(/^verify\t/m);
    expect(offers("cgn up --log-level ")).toMatch(/^debug\t/m);
    expect(offers("cgn up --")).toMatch(/^--listen\t/m);
  });

  it("says of each group of commands what it is for", () => {
    const groups = new Set(COMMANDS.flatMap(({ name }) => (name.includes(" ") ? [name.split(" ")[0]!] : [])));
    const only = [...groups].filter((group) => !COMMANDS.some(({ name }) => name === group));
    expect(Object.keys(COMMAND_GROUPS).sort()).toEqual(only.sort());
  });

  it.each(SHELLS)("has every command and option in %s", (shell) => {
    const script = completionScript(shell, COMMANDS, COMMAND_GROUPS);
    for (const { name, options } of COMMANDS) {
      expect(script).toContain(name.split(" ").at(-1));
      for (const option of Object.keys(options)) expect(script).toContain(option);
    }
  });
});

describe("manPage()", () => {
  it.runIf(has("groff"))("is set by groff without a warning, with every command in it", () => {
    const page = manPage(COMMANDS, "1.2.3");
    const { stdout, stderr } = spawnSync("groff", ["-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou"], {
      input: page,
      encoding: "utf8",
    });
    expect(stderr).toBe("");
    for (const { name } of COMMANDS) expect(stdout.replaceAll(/\s+/g, " ")).toContain(`cgn ${name}`);
  });
});
