import { describe, expect, it } from "vitest";
import { type TableRow, tableRows } from "../engines/table.ts";
import type { CliContext, Values } from "./command.ts";
import { tableCommand, tableMarkdown, tableText } from "./table.ts";

async function table(options: Values): Promise<string> {
  const out: string[] = [];
  const cli = { out: (text: string) => void out.push(text) } as unknown as CliContext;
  await tableCommand.run({ options, positionals: [] }, cli);
  return out.join("\n");
}

describe("tableCommand", () => {
  it("tableCommand() prints 75 cells as JSON, each supported or refused with its reason", async () => {
    const rows = JSON.parse(await table({ format: "json" })) as TableRow[];
    expect(rows).toHaveLength(75);
    for (const row of rows) {
      if (row.supported)
        expect(Object.keys(row).filter((key) => key !== "notAsked")).toEqual([
          "engine",
          "kvOffload",
          "role",
          "supported",
          "args",
          "env",
          "notes",
          "verified",
        ]);
      else expect(Object.keys(row)).toEqual(["engine", "kvOffload", "role", "supported", "reason"]);
    }
  });

  it("tableCommand() prints one engine with --kind", async () => {
    const rows = JSON.parse(await table({ format: "json", kind: "mlx" })) as TableRow[];
    expect(new Set(rows.map((row) => row.engine))).toEqual(new Set(["mlx"]));
    expect(rows).toHaveLength(15);
  });

  it("tableText() has a line for every cell", () => {
    const lines = tableText(tableRows()).split("\n");
    expect(lines.filter((line) => /^\w+ +\w+ +\w+ +(yes|no)/.test(line))).toHaveLength(75);
  });

  it("tableMarkdown() has a table for each engine whose rows all have five cells", () => {
    const text = tableMarkdown(tableRows());
    expect(text.match(/^## /gm)).toHaveLength(5);
    const rows = text.split("\n").filter((line) => line.startsWith("| "));
    expect(rows.every((line) => line.replaceAll("\\|", "").split(" | ").length === 5)).toBe(true);
    expect(rows).toHaveLength(75 + 2 * 5);
  });
});
