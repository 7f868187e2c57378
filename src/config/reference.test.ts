import { describe, expect, it } from "vitest";
import { ENGINES } from "../engines/registry.ts";
import { configSchema } from "./config-schema.ts";
import { configJsonSchema } from "./json-schema.ts";
import { configReferenceMarkdown } from "./reference.ts";
import { schemaKeys } from "./schema-walk.ts";

const KEYS = schemaKeys(configSchema(ENGINES)).filter((key) => key.path[0] !== "engines");

describe("configReferenceMarkdown()", () => {
  it("configReferenceMarkdown() has every key", () => {
    const text = configReferenceMarkdown();
    for (const key of KEYS) {
      const name = key.path.at(-1)!;
      if (name === "NAME" || name === "[]") continue;
      const shown = key.info.shape.type === "table" || key.info.shape.type === "record" ? name : `\`${name}`;
      expect(text, key.path.join(".")).toContain(key.path.includes("[]") ? `[].${name}\`` : shown);
    }
  });

  it("configReferenceMarkdown() lists under each section exactly the schema's keys", () => {
    // `[engine].env` was in the schema and not in the reference: every record was taken for a section.
    const named = new Set<string>();
    let section = "";
    for (const line of configReferenceMarkdown().split("\n")) {
      section = /^## `\[+(.+?)\]+`/.exec(line)?.[1]?.replaceAll('"', "") ?? section;
      const key = /^\| `([^`]+)` \|/.exec(line)?.[1];
      if (key !== undefined) named.add(`${section}.${key}`);
    }
    const sections = new Set(KEYS.map(({ path }) => path.slice(0, -1).join(".")));
    const wanted = KEYS.map(({ path }) => path.join(".").replaceAll(".[]", "[]"));
    // What holds other tables is a heading; a record of plain values is a key.
    const leaves = wanted.filter((path, n) => {
      const { shape } = KEYS[n]!.info;
      if (path.endsWith("[]") || (path.endsWith(".NAME") && !sections.has(path))) return false;
      return shape.type !== "table" && !(shape.type === "record" && sections.has(`${path}.NAME`));
    });
    expect([...named].sort()).toEqual(leaves.sort());
  });

  it("configSchema() describes every key, and gives numbers a unit", () => {
    const mute = KEYS.filter(
      (key) => key.path.at(-1) !== "NAME" && key.path.at(-1) !== "[]" && !key.info.meta.description,
    );
    expect(mute.map((key) => key.path.join("."))).toEqual([]);
    const bare = KEYS.filter((key) => key.path[0] !== "engine" && ["integer", "number"].includes(key.info.shape.type));
    expect(bare.filter((key) => key.info.meta.unit === undefined).map((key) => key.path.join("."))).toEqual([]);
  });
});

describe("configJsonSchema()", () => {
  it("configJsonSchema() has aliases, twins, units and no keyword of ours", () => {
    const text = JSON.stringify(configJsonSchema());
    for (const name of ["mlx_lm", "ttft_slo_ms", "redfish_password_file", '"x-unit":"tokens"', '"etcd"']) {
      expect(text).toContain(name);
    }
    for (const name of ['"unit":', '"aliases":', '"duration":', '"secret":']) expect(text).not.toContain(name);
  });
});
