import { Histogram, Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { BucketHistogram } from "./bucket-histogram.ts";

describe("BucketHistogram", () => {
  it("prints what prom-client's own histogram prints", async () => {
    const [own, theirs] = [new Registry(), new Registry()];
    const ours = new BucketHistogram("x_seconds", "help", ["model"], [0.1, 1, 5]);
    own.registerMetric(ours as never);
    const other = new Histogram({
      name: "x_seconds",
      help: "help",
      labelNames: ["model"],
      buckets: [0.1, 1, 5],
      registers: [theirs],
    });
    for (const [model, value] of [
      ["a", 0.05],
      ["a", 0.1],
      ["b", 3],
      ["a", 99],
    ] as const) {
      ours.labels(model).observe(value);
      other.labels(model).observe(value);
    }
    expect(await own.metrics()).toBe(await theirs.metrics());
    ours.remove("a");
    other.remove("a");
    expect(await own.metrics()).toBe(await theirs.metrics());
  });
});
