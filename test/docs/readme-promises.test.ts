import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, readPage } from "./markdown.ts";

/** Each promise of the README, in its words, with the test that would fail if it were broken: file, and words of the test's name. */
const PROMISES: readonly (readonly [promise: string, file: string, test: string])[] = [
  [
    "starts two\nengines behind one endpoint",
    "test/e2e/real-engine.test.ts",
    "sends the second turn where the first was",
  ],
  ["each turn shows its route", "scripts/test-first-run.mjs", "A chat of two turns in the page"],
  [
    "Ctrl-C ends all of it",
    "scripts/test-first-run.mjs",
    "Processes that were started from the clone and are still there",
  ],
  ["uses simulated vLLM engines with KV events", "test/e2e/sim-engines.test.ts", "exactly, from events"],
  ["from 18 on an older one will do", "scripts/node.mjs", "installs one beside the tree when the machine's is too old"],
  ["only this folder", "scripts/test-first-run.mjs", "outside"],
  [
    "every problem of the file at once, each with line, column",
    "src/cli/check.test.ts",
    "every problem as file:line:column",
  ],
  ["what this host lacks for it", "src/config/checks/broken-hosts.test.ts", "describe("],
  ["the exact engine command", "src/cli/render.test.ts", "it("],
  ["the same engines kept by systemd (or `compose`, `k8s`)", "src/cli/render.test.ts", "systemd"],
  ["the whole dial", "src/engines/table.test.ts", "it("],
  [
    "engines that did not change go on, changed ones are drained first",
    "test/e2e/reload.test.ts",
    "leaves the others' processes alone",
  ],
  ["what the last run wrote that ended by itself", "src/cli/logs.test.ts", "the last good and the last bad run"],
  ["every key is in\n[docs/configuration.md]", "test/docs.test.ts", "is what the code says"],
  ["More files to start\nfrom come with it", "test/recipes.test.ts", "loads without an error"],
  ["asks for no key unless `[auth].enabled` says so", "src/cli/open-access.test.ts", "it("],
  ["In front of engines that already run, no file is needed", "test/docs/commands.test.ts", "does what it says"],
  ["It finds them in the Hugging Face\ncache", "src/modelfiles/read-model.test.ts", "hub"],
  ["what no engine of the model has is 501", "src/router/front-door.test.ts", "is 501 where none has it"],
  [
    "`/v1/messages` and `/v1/responses` are converted",
    "src/router/front-door.test.ts",
    "is converted for an engine that has chat completions only",
  ],
  [
    "drives all this with the\nSDKs of OpenAI and Anthropic",
    "test/clients/clients.test.ts",
    "real clients before a router",
  ],
  ["Each response says what was decided", "src/router/router.test.ts", "with who answered and what was predicted"],
  [
    "shows the candidates, their costs term by term",
    "src/cli/explain.test.ts",
    "shows candidates, their terms, prediction and outcome",
  ],
  ["**dashboard**", "test/web/dashboard.test.ts", "it("],
  ["says of each miss what it was", "test/e2e/kv-trust.test.ts", "generated tokens checked"],
  ["`./cgn kv sources` shows\npredicted against reported tokens", "src/cli/kv-trust-lines.test.ts", "it("],
  ["first come first served", "src/router/wait-room.test.ts", "in the order in which they came"],
  ["(none is ever cut)", "test/swap/swap.test.ts", "cuts nothing"],
  ["a comment every 5 s", "src/router/wait-room.test.ts", "sends a streaming client comments"],
  ["the answer is 503 with `Retry-After`", "src/router/wait-room.test.ts", "answers 503 with Retry-After"],
  ["then the longest unused make room", "src/agent/swap-plan.test.ts", "by what was unused longest"],
  ["mean what they mean in llama-swap", "src/agent/swap-plan.test.ts", "as llama-swap does"],
  ["puts vLLM to sleep instead of ending it", "test/swap/swap.test.ts", "puts engines to sleep where they can"],
  ["`/v1/models` lists all models, loaded or not", "src/router/wait-room.test.ts", "lists the model"],
  ["An engine that ends, hangs or stalls is started again", "test/e2e/supervisor.test.ts", "takes one that hangs out"],
  [
    "the logs of its last good and last bad run",
    "test/e2e/keeping.test.ts",
    "with the logs of the last good and the last bad run",
  ],
  [
    "engines survive an upgrade of `cgn agent`",
    "test/e2e/reload.test.ts",
    "lets the next agent take over the same processes",
  ],
  ["`cgn agent --end-kept`\nends them for good", "test/e2e/kept-engines.test.ts", "--end-kept ends them"],
  ["leaves no orphan", "test/e2e/guard.test.ts", "an agent that is killed with SIGKILL"],
  [
    "it goes on (and says so) when kvcached is killed",
    "test/e2e/kvcached-restart.test.ts",
    "kill -9 of kvcached during load",
  ],
  ["or the network is cut", "test/e2e/network-cut.test.ts", "goes on, says that it is old"],
  ["by gRPC, JSON or as they\nask Mooncake Conductor", "test/kvcached-docs.test.ts", "/query"],
  ["find each other through etcd, a file or Kubernetes", "test/e2e/etcd-membership.test.ts", "it("],
  ["finds the cheapest fleet", "test/docs/commands.test.ts", "does what it says"],
];

describe("README.md", () => {
  const text = readPage("README.md");

  it.each(PROMISES)("%j is kept by a test", (promise, file, test) => {
    expect(text).toContain(promise);
    expect(readFileSync(join(ROOT, file), "utf8")).toContain(test);
  });

  it("has a promise with its test in each section", () => {
    const sections = text
      .split(/^## /m)
      .filter((section) => !section.startsWith("License") && !section.startsWith("# "));
    const bare = sections.filter((section) => !PROMISES.some(([promise]) => section.includes(promise)));
    expect(bare.map((section) => section.split("\n")[0])).toEqual([]);
  });
});
