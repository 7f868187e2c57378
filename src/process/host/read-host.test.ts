import { describe, expect, it } from "vitest";
import { lockedMemoryIn, readGpuList } from "./read-host.ts";

describe("readGpuList()", () => {
  it("reads what nvidia-smi prints, in bytes", () => {
    const csv = "0, NVIDIA H100 80GB HBM3, 81559, 527\n1, NVIDIA H100 80GB HBM3, 81559, 0\n";
    const [first, second] = readGpuList(csv);
    expect(first).toEqual({
      index: 0,
      name: "NVIDIA H100 80GB HBM3",
      totalBytes: 81559 * 1024 ** 2,
      usedBytes: 527 * 1024 ** 2,
    });
    expect(second?.index).toBe(1);
  });

  it("leaves out lines of other kinds, and takes a GPU that does not tell its memory", () => {
    const csv = "Failed to initialize NVML: Driver/library version mismatch\n\n0, NVIDIA GB10, [N/A], [N/A]\n";
    expect(readGpuList(csv)).toEqual([{ index: 0, name: "NVIDIA GB10", totalBytes: 0, usedBytes: 0 }]);
  });
});

describe("lockedMemoryIn()", () => {
  it("reads the hard limit of /proc/self/limits", () => {
    const line = (soft: string, hard: string) =>
      `Max locked memory         ${soft}              ${hard}              bytes\n`;
    expect(lockedMemoryIn(line("8388608", "67108864"))).toBe(67_108_864);
    expect(lockedMemoryIn(line("8388608", "unlimited"))).toBe(Number.POSITIVE_INFINITY);
    expect(lockedMemoryIn("")).toBeUndefined();
  });
});
