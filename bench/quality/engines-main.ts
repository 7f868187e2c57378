// The fleet of the quality benchmark, in a process of its own: node engines-main.ts '{"ports":[…],"events":[…],"form":"words","size":{…}}'. Prints "up" when it serves.
import { systemClock } from "../../src/cli/system-clock.ts";
import { type EngineSize, QualityEngine } from "./engine.ts";
import { publishEvents } from "./events.ts";
import { serveEngine, type TokenForm } from "./serve.ts";

export interface EnginesOptions {
  /** [engines] */
  readonly ports: readonly number[];
  /** [engines] ports of KV events; empty: none. */
  readonly events: readonly number[];
  readonly form: TokenForm;
  readonly size: EngineSize;
}

const { ports, events, form, size } = JSON.parse(process.argv[2]!) as EnginesOptions;
const clock = systemClock();
for (const [i, port] of ports.entries()) {
  const engine = new QualityEngine(size, clock);
  if (events.length > 0) await publishEvents(engine, events[i]!, form);
  await serveEngine(engine, port, form);
}
process.stdout.write("up\n");
process.on("SIGTERM", () => process.exit(0));
