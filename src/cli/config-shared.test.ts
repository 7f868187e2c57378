import { afterEach, expect, it } from "vitest";
import { startTestRouter, type TestRouter } from "../router/testing/test-router.ts";
import { configListCommand, configSetCommand } from "./config-shared.ts";
import { collectingCli } from "./testing/collecting-cli.ts";

let router: TestRouter | undefined;
afterEach(async () => router?.router.close());

it("cgn config set says in the router's words that it has no place for shared settings, or that a value is wrong", async () => {
  router = await startTestRouter([]);
  const { cli, out } = collectingCli();
  const options = { admin: router.admin };
  const set = (...positionals: string[]) => configSetCommand.run({ options, positionals }, cli);
  await expect(set("router.policy=random")).rejects.toMatchObject({
    code: "NOT_SUPPORTED",
    message: expect.stringMatching(/kept by memory, which has no place for it.*cgn reload.*state_backend = "etcd"/),
  });
  await expect(set("router.policy")).rejects.toThrow("it is no KEY=VALUE");
  expect(await configListCommand.run({ options, positionals: [] }, cli)).toBe(0);
  expect(out).toEqual(["nothing is shared (memory): each router goes by its own file"]);
});
