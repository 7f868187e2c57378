import { describe, expect, it } from "vitest";
import { isHost, isUrl } from "./address.ts";

describe("isHost()", () => {
  it("takes names and addresses that a host can have", () => {
    for (const host of [
      "a",
      "gpu1.lan",
      "my_host",
      "a-1.b",
      "10.0.0.5",
      "255.255.255.255",
      "::1",
      "fd00::5",
      "::ffff:10.0.0.6",
    ])
      expect(isHost(host), host).toBe(true);
  });

  it("takes nothing else: ports, schemes, brackets, zones, numbers that are no address, what DNS has no place for", () => {
    for (const host of [
      ...["", "bad host", "gpu1:7070", "10.0.0.5:80", "http://a", "[::1]", "fe80::1%eth0", "1:2", ":", "10.0.0.256"],
      ...["10.0.0", "1", "a.1", "a..b", ".a", "a.", "-a", "a-", "bücher.example", "a/b", "a,b", "*", "x".repeat(64)],
      ...[`${"a.".repeat(127)}bc`, "01.0.0.999", "1.2.3.4.5"],
    ])
      expect(isHost(host), host).toBe(false);
  });
});

it("isUrl() takes URLs of the schemes that are named, of hosts that can be", () => {
  const http = ["http", "https"];
  for (const url of ["http://a", "https://gpu1.lan.:8080/x", "http://[::1]:1", "http://10.0.0.5", "http://u:p@a"])
    expect(isUrl(url, http), url).toBe(true);
  for (const url of ["", "a", "a:1", "ftp://a", "http://", "http://a:99999", "http://bad host", "http://a..b"])
    expect(isUrl(url, http), url).toBe(false);
  expect(isUrl("redis://:pw@10.0.0.9:6379/0", ["redis", "rediss"])).toBe(true);
});
