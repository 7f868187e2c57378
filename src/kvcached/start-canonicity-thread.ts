import { Worker } from "node:worker_threads";
import type { FromThread, ToThread } from "./canonicity-messages.ts";

/** A way to the checks, wherever they run. */
export interface CanonicityLink {
  post(message: ToThread): void;
  close(): void;
}

/** What is heard from there. */
export interface CanonicityHearer {
  heard(message: FromThread): void;
  /** It is gone; nothing more is checked. */
  failed(reason: string): void;
}

/** Files are `.ts` here and `.js` in the published package, and a thread's file is named in full. */
const ENTRY = new URL(`./canonicity-thread${import.meta.url.slice(import.meta.url.lastIndexOf("."))}`, import.meta.url);

/** Start the thread that checks. It does not keep the process alive. */
export function startCanonicityThread(
  env: Readonly<Record<string, string | undefined>>,
  hearer: CanonicityHearer,
): CanonicityLink {
  // Only what says where models lie.
  const places = ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"].map((name) => [name, env[name]] as const);
  const thread = new Worker(ENTRY, { workerData: { env: Object.fromEntries(places) }, name: "cgn canonicity" });
  let closed = false;
  thread.unref();
  thread.on("message", (message: FromThread) => hearer.heard(message));
  thread.on("error", (error) => closed || hearer.failed(error instanceof Error ? error.message : String(error)));
  thread.on("exit", (code) => closed || hearer.failed(`its thread ended (${code})`));
  return {
    post: (message) => thread.postMessage(message),
    close() {
      closed = true;
      void thread.terminate();
    },
  };
}
