import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, it } from "vitest";
import { API_PATHS } from "../../core/api-paths.ts";
import { RELOAD_PATH, ROLE_PATH } from "../../core/reload-report.ts";
import { findEndpoint, KNOWN_PATHS } from "../endpoints.ts";
import { ADMIN_OPERATIONS } from "./admin-operations.ts";
import { FRONT_OPERATIONS } from "./front-operations.ts";
import { openApiDocument } from "./openapi.ts";

const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, "x");

describe("openApiDocument()", () => {
  it("is valid OpenAPI 3.1", async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(openApiDocument()));
    expect({ valid, errors }).toMatchObject({ valid: true });
  });

  it("names each operation once", () => {
    const ids = [...FRONT_OPERATIONS, ...ADMIN_OPERATIONS].map(({ path, method }) => `${method} ${path}`);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe("FRONT_OPERATIONS", () => {
  it("are what the router serves, by the same method, and nothing is left out", () => {
    for (const { path, method } of FRONT_OPERATIONS) {
      const endpoint = findEndpoint(filled(path));
      expect(endpoint, path).toBeDefined();
      if (endpoint?.method !== undefined) expect(endpoint.method.toLowerCase(), path).toBe(method);
    }
    const documented = FRONT_OPERATIONS.map(({ path }) => path);
    for (const path of [...KNOWN_PATHS, ...API_PATHS]) {
      if (findEndpoint(path) !== undefined) expect(documented, path).toContain(path);
    }
  });
});

describe("ADMIN_OPERATIONS", () => {
  const room = join(import.meta.dirname, "..");
  const source = readdirSync(room)
    .filter((name) => /^admin(-\w+)?\.ts$/.test(name))
    .map((name) => readFileSync(join(room, name), "utf8"))
    .join("\n");
  /** Paths that stand in the source; those that end in a slash are beginnings. */
  const served = [...source.matchAll(/"(\/(?:v1\/cgn\/[a-z/]+|healthz|readyz|metrics|openapi\.json))"/g)].map(
    ([, path]) => path!,
  );

  it("name every path that admin.ts answers", () => {
    expect(served.length).toBeGreaterThan(10);
    const documented = ADMIN_OPERATIONS.map(({ path }) => path);
    for (const path of [...served, RELOAD_PATH, ROLE_PATH]) {
      const found = path.endsWith("/") ? documented.some((each) => each.startsWith(path)) : documented.includes(path);
      expect(found, path).toBe(true);
    }
  });

  it("are all answered there", () => {
    for (const { path } of ADMIN_OPERATIONS) {
      if (path === "/" || path === RELOAD_PATH || path === ROLE_PATH) continue;
      const known = served.some((each) => each === path || (each.endsWith("/") && path.startsWith(each)));
      expect(known, path).toBe(true);
    }
  });
});
