import { expect, it } from "vitest";
import { createLog } from "../telemetry/log.ts";
import { warnOfOpenAddress } from "./open-address.ts";

// The README said that "cgn up" listens on 127.0.0.1, and it listened everywhere without a word.
it("warnOfOpenAddress() warns once for an address off loopback, and not for loopback", () => {
  const lines: string[] = [];
  const log = createLog({ format: "json", write: (line) => void lines.push(line) });
  for (const host of ["127.0.0.1", "127.1.2.3", "localhost", "::1"]) warnOfOpenAddress({ host, port: 8080 }, log);
  expect(lines).toEqual([]);
  warnOfOpenAddress({ host: "0.0.0.0", port: 8080 }, log);
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0]!)).toMatchObject({ level: "warn", listen: "0.0.0.0:8080" });
  expect(lines[0]).toContain("--listen 127.0.0.1:8080");
});
