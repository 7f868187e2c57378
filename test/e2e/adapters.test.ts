import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { closeAll, eventsFlag, freePort, vllm } from "../../src/sim/testing/sim-client.ts";
import { type CgnProcess, freePorts, scratch, startCgn, until } from "../helpers/cgn-process.ts";
import { chat, readyWorkers } from "../helpers/up.ts";

describe("a simulated vLLM with a LoRA adapter, adopted by cgn router", () => {
  const place = scratch();
  let router: CgnProcess;
  let url = "";
  beforeAll(async () => {
    const events = eventsFlag(await freePort(), await freePort());
    const engine = await vllm([...events, "--enable-lora", "--lora-modules", "tiny=/adapters/tiny"]);
    const [http = 0, admin = 0] = await freePorts(2);
    const listen = `[router]\nlisten_http = "127.0.0.1:${http}"\nlisten_admin = "127.0.0.1:${admin}"\n`;
    const config = place.file("cgn.toml", listen);
    router = startCgn(["router", "--config", config, "--engine", `${engine.url},tokenizer=bytes`]);
    url = `http://127.0.0.1:${http}`;
    const words = () => router.output();
    await until(
      "the engine",
      30_000,
      async () => ((await readyWorkers(`http://127.0.0.1:${admin}`)) > 0 ? true : undefined),
      words,
    );
  }, 60_000);
  afterAll(async () => {
    router.child.kill("SIGTERM");
    await router.exit;
    await closeAll();
    place.dispose();
  }, 30_000);

  it("is predicted apart from its base model, with and without a salt", async () => {
    const text = "The archive keeps glass plates, night logs and letters, sorted by number and by year. ".repeat(8);
    const ask = (model: string, more: object = {}) =>
      chat(url, { model, max_tokens: 4, messages: [{ role: "user", content: text }], ...more });
    const roots = [["sim"], ["tiny"], ["tiny", { cache_salt: "s" }], ["sim", { cache_salt: "s" }]] as const;
    for (const [model, more] of roots) {
      expect(await ask(model, more), `${model} first`).toMatchObject({ status: 200, predicted: 0, cached: 0 });
    }
    for (const [model, more] of roots) {
      const again = await until("its events", 10_000, async () => {
        const reply = await ask(model, more);
        return reply.predicted > 0 ? reply : undefined;
      });
      expect(again.cached, `${model} again`).toBe(again.predicted);
    }
  }, 30_000);
});
