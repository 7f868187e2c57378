import { parentPort, workerData } from "node:worker_threads";
import { readModel } from "../modelfiles/read-model.ts";
import { CanonicityDesk } from "./canonicity-desk.ts";
import type { ToThread } from "./canonicity-messages.ts";
import { checkingTools } from "./checking-tools.ts";

/** The thread's entry: started by `startCanonicityThread()`, speaks `canonicity-messages.ts`. */
const { env } = workerData as { readonly env: Readonly<Record<string, string | undefined>> };
const port = parentPort;
if (port !== null) {
  const desk = new CanonicityDesk(
    async (model) => {
      const files = await readModel({ ...model, env });
      return files === undefined ? { reason: "its tokenizer is not on this machine" } : checkingTools(files);
    },
    (message) => port.postMessage(message),
  );
  port.on("message", (message: ToThread) => desk.take(message));
}
