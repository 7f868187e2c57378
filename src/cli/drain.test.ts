import { afterEach, expect, it } from "vitest";
import { startTestRouter, type TestRouter, testWorker } from "../router/testing/test-router.ts";
import { Booking } from "../routing/load.ts";
import type { Command, Values } from "./command.ts";
import { cordonCommand, drainCommand, uncordonCommand } from "./drain.ts";
import { systemClock } from "./system-clock.ts";
import { collectingCli } from "./testing/collecting-cli.ts";

let router: TestRouter | undefined;
afterEach(async () => router?.router.close());

async function run(command: Command, node: string, options: Values = {}) {
  const { cli, out } = collectingCli();
  const code = await command.run({ options: { admin: router!.admin, ...options }, positionals: [node] }, cli);
  return { code, out: out.join("\n") };
}

it("cgn cordon, drain and uncordon mark a node; drain ends with 10 once nothing runs there", async () => {
  router = await startTestRouter([testWorker("a", "http://127.0.0.1:9"), testWorker("b", "http://127.0.0.1:9")]);
  const { core } = router.router;
  const takes = () => core.fleet.group("m")!.ready.map(({ id }) => String(id));
  expect((await run(cordonCommand, "a")).out).toBe("a  gets no new requests: 1 engine, 0 requests run");
  expect(takes()).toEqual(["b"]);
  await run(uncordonCommand, "a");
  const [a] = core.fleet.workers();
  const booking = new Booking(core.loads.of(a!.id), 10, systemClock());
  await expect(run(drainCommand, "a", { timeout: 0 })).rejects.toThrow(
    'Cannot drain "a": 1 requests still run after 0 s',
  );
  expect(takes()).toEqual(["b"]);
  expect(await run(drainCommand, "a", { wait: false })).toEqual({ code: 0, out: "a  draining, 1 requests run" });
  booking.release();
  expect(await run(drainCommand, "a", { timeout: 5 })).toEqual({ code: 10, out: "a  drained" });
  await expect(run(drainCommand, "nobody", { timeout: 5 })).rejects.toThrow("There is a, b");
});
