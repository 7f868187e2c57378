import { describe, expect, it } from "vitest";
import type { CliContext, Values } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { rangeText, runProgram } from "./program.ts";

/** The exit code of a command line whose commands only tell their options, and what was said. */
async function tell(argv: readonly string[]) {
  const said: string[] = [];
  let options: Values = {};
  const cli = { out: (text: string) => said.push(text), err: (text: string) => said.push(text) };
  const commands = COMMANDS.map((command) => ({
    ...command,
    run: async (args: { readonly options: Values }) => {
      options = args.options;
      return 0;
    },
  }));
  const about = { version: "0", groups: {} };
  const code = await runProgram(commands, argv, cli as unknown as CliContext, about);
  return { code, said: said.join("\n"), options };
}

describe("runProgram() with numbers", () => {
  // Broke: cgn sim --port 99999 ended with 7 and "Free the port".
  it.each([
    ["sim", "--port", "99999", "a whole number from 0 to 65535"],
    ["sim", "--port", "-1", "a whole number from 0 to 65535"],
    ["sim", "--port", "80.5", "a whole number from 0 to 65535"],
    ["sim", "--port", "", "a whole number from 0 to 65535"],
    ["sim", "--events-port", "0", "a whole number from 1 to 65535"],
    ["sim", "--block-size", "0", "a whole number from 1"],
    ["sim", "--blocks", "0", "a whole number from 1"],
    ["sim", "--speed", "0", "a number from 0.001"],
    ["sim", "--load-seconds", "-3", "a number from 0"],
    ["sim", "--load-seconds", "1e12", "a number from 0"],
    ["demo", "--port", "70000", "a whole number from 1 to 65535"],
    ["logs", "--lines", "-5", "a whole number from 0"],
    ["logs", "--lines", "many", "a whole number from 0"],
  ])("refuses cgn %s %s %j with 2: it must be %s", async (command, flag, value, must) => {
    const { code, said } = await tell([command, `${flag}=${value}`]);
    expect(code).toBe(2);
    expect(said).toContain(`It must be ${must}`);
  });

  it("takes what fits", async () => {
    const { code, options } = await tell(["sim", "--port", "0", "--speed", "2.5"]);
    expect([code, options["port"], options["speed"]]).toEqual([0, 0, 2.5]);
  });

  it("knows a range for every number that a command takes", () => {
    const open = COMMANDS.flatMap(({ name, options }) =>
      Object.entries(options)
        .filter(([, option]) => option.type === "number" && (option.min === undefined || option.max === undefined))
        .map(([option]) => `${name} --${option}`),
    );
    expect(open).toEqual([]);
  });
});

describe("rangeText()", () => {
  it("says the ends that are there", () => {
    expect(rangeText({})).toBe("a number");
    expect(rangeText({ min: 1, whole: true })).toBe("a whole number, at least 1");
    expect(rangeText({ max: 2 })).toBe("a number, at most 2");
  });
});
