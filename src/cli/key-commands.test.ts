import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { hashApiKey } from "../access/api-key.ts";
import { readKeyFile } from "../access/key-file.ts";
import { parseKeyLines } from "../access/key-lines.ts";
import { KeyRing } from "../access/key-ring.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { lineOfKey } from "./key-hash.ts";
import { keyListCommand } from "./key-list.ts";
import { keyNewCommand } from "./key-new.ts";
import { systemClock } from "./system-clock.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-key-"));
afterAll(() => rmSync(dir, { recursive: true }));

async function run(command: Command, options: Values): Promise<{ out: string; err: string }> {
  const [out, err]: [string[], string[]] = [[], []];
  const cli: CliContext = {
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    env: {},
    cwd: dir,
    color: false,
    signal: new AbortController().signal,
    clock: systemClock(),
  };
  await command.run({ options, positionals: [] }, cli);
  return { out: out.join("\n"), err: err.join("\n") };
}

describe("cgn key", () => {
  it("new shows the key once and keeps its hash, in a file that only its owner reads", async () => {
    writeFileSync(join(dir, "kept"), "# no line end");
    const first = await run(keyNewCommand, { file: "keys", name: "team a", rpm: 5, maxPromptTokens: 100 });
    const second = await run(keyNewCommand, { file: "kept", scopes: "admin,metrics" });
    expect(first.out).toMatch(/^cgn-[0-9a-f]{32}$/);
    expect(first.err).toBe("");
    expect(statSync(join(dir, "keys")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(dir, "keys"), "utf8")).not.toContain(first.out);
    expect(readKeyFile(join(dir, "keys"))[0]).toMatchObject({
      hash: hashApiKey(first.out),
      name: "team a",
      limits: { rpm: 5, maxPromptTokens: 100 },
    });
    expect(readKeyFile(join(dir, "kept"))[0]?.hash).toBe(hashApiKey(second.out));
  });

  it("new without a file shows the line apart from the key", async () => {
    const { out, err } = await run(keyNewCommand, {});
    expect(err.split("\n")[1]).toBe(hashApiKey(out));
  });

  it.each([
    [{ scopes: "root" }, /"root" is no scope/],
    [{ name: 'a" scopes=admin' }, /--name has a quote/],
    [{ expires: "soon" }, /is no date/],
  ])("new refuses %j", async (options, said) => {
    await expect(run(keyNewCommand, options)).rejects.toThrow(said);
  });

  it("list shows who has keys and what they may, never a whole hash", async () => {
    const { out } = await run(keyNewCommand, { file: "listed", name: "x", models: "q*", priority: 3 });
    const text = (await run(keyListCommand, { file: "listed" })).out;
    expect(text).toMatch(/x +inference +q\*/);
    expect(text).not.toContain(hashApiKey(out));
    const json = JSON.parse((await run(keyListCommand, { file: "listed", json: true })).out);
    expect(json).toEqual([
      {
        id: hashApiKey(out).slice(0, 12),
        kind: "sha256",
        name: "x",
        scopes: ["inference"],
        models: ["q*"],
        priority: 3,
        limits: {},
      },
    ]);
  });

  it("hash prints a line that opens to the key, and refuses what is guessed", async () => {
    const line = await lineOfKey("my-own-long-passphrase", { chosen: true, name: "bob" });
    const ring = new KeyRing(parseKeyLines(line).entries, systemClock());
    expect((await ring.find("my-own-long-passphrase"))?.subject.name).toBe("bob");
    expect(await lineOfKey("k", { rpm: 3 })).toBe(`${hashApiKey("k")} rpm=3`);
    await expect(lineOfKey("short", { chosen: true })).rejects.toThrow(/Choose at least 12/);
    await expect(lineOfKey("two words here at once", {})).rejects.toThrow(/it has blanks/);
    await expect(lineOfKey("", {})).rejects.toThrow(/stdin is empty/);
  });
});
