import { afterEach, describe, expect, it } from "vitest";
import { comparable, wordsOf } from "../testing/answer-shape.ts";
import { closeAll, read, startTracked } from "../testing/sim-client.ts";
import { readSglangArgv } from "./sglang-argv.ts";

afterEach(closeAll);

interface Recorded {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

const RECORDED = read("sglang/recorded.jsonl")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);

/** Of hundreds of figures the simulator has those that a control plane reads. */
const PARTLY = new Set(["get_model_info", "model_info", "metrics", "loads"]);

describe("a simulated SGLang", () => {
  it.each(RECORDED)(
    "answers $name as the recorded one",
    async ({ name, method, path, body, status, headers, text }) => {
      const argv = ["-m", "sglang.launch_server", "--model-path", "/models/smollm2", "--served-model-name", "smollm2"];
      const flags = ["--port", "0", "--page-size", "16", "--enable-metrics", "--enable-cache-report"];
      const server = await startTracked(
        readSglangArgv([...argv, ...flags, "--context-length", "8192", "--sim-profile", "instant"], {}),
      );
      const res = await fetch(`${server.url}${path}`, {
        method,
        headers: { "content-type": "application/json" },
        ...(body === null ? {} : { body: JSON.stringify(body) }),
      });
      const found = await res.text();
      expect(res.status).toBe(status);
      for (const header of ["content-type", "server", "vary"]) {
        expect(res.headers.get(header) ?? undefined, header).toBe(headers[header]);
      }
      if (PARTLY.has(name)) return;
      const type = headers["content-type"] ?? "";
      // Whether an answer ends by itself within the limit is the model's business.
      const shape = (body: string): string =>
        comparable(type, body).replaceAll("matched_stop:number", "matched_stop:null");
      expect(shape(found)).toBe(shape(text));
      if (status >= 400) expect(wordsOf(found)).toBe(wordsOf(text));
    },
  );
});
