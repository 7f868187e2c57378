import { CgnError } from "../core/errors.ts";
import { ADMIN_OPTIONS, askAdmin, postAdmin } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { MAX_SECONDS } from "./command.ts";
import { startProgress } from "./progress.ts";

const NODE = { name: "NODE", about: "a node's name, or an engine's id as cgn status shows it", required: true };
const LOOK_MS = 200;
/** Exit code of a drain that came to its end. */
const DRAINED = 10;

/** `cgn drain NODE`: no new requests, and wait until those that run have ended. */
export const drainCommand: Command = {
  name: "drain",
  about:
    "let a router send no new requests to a node (or one engine), also after its restart, until cgn uncordon; and wait for those that run: exit code 10 once none does",
  examples: ["cgn drain gpu-a", "cgn drain gpu-a/qwen --timeout 60", "cgn drain gpu-a --no-wait"],
  positionals: [NODE],
  options: {
    ...ADMIN_OPTIONS,
    timeout: {
      type: "number",
      value: "SECONDS",
      about: "wait so long at most",
      default: 600,
      min: 0,
      max: MAX_SECONDS,
    },
    "no-wait": { type: "boolean", about: "do not wait for requests that run" },
  },
  async run({ options, positionals }, cli) {
    const node = positionals[0] ?? "";
    const { inFlight } = await mark("drain", node, options, cli);
    if (options["wait"] === false || options["noWait"] === true) {
      cli.out(`${node}  draining, ${inFlight} requests run`);
      return 0;
    }
    return await waitUntilIdle(node, options, cli);
  },
};

/** `cgn cordon NODE`: no new requests; nothing is waited for. */
export const cordonCommand: Command = {
  name: "cordon",
  about: "let a router send no new requests to a node (or one engine); what runs goes on",
  examples: ["cgn cordon gpu-a", "cgn cordon gpu-a/qwen"],
  positionals: [NODE],
  options: ADMIN_OPTIONS,
  run: ({ options, positionals }, cli) => say("cordon", positionals[0] ?? "", options, cli),
};

/** `cgn uncordon NODE`: take back `drain` and `cordon`. */
export const uncordonCommand: Command = {
  name: "uncordon",
  about: "take back cgn drain and cgn cordon: the node (or engine) gets requests again",
  examples: ["cgn uncordon gpu-a"],
  positionals: [NODE],
  options: ADMIN_OPTIONS,
  run: ({ options, positionals }, cli) => say("uncordon", positionals[0] ?? "", options, cli),
};

type Verb = "drain" | "cordon" | "uncordon";

interface Marked {
  readonly workers: number;
  readonly inFlight: number;
}

async function mark(verb: Verb, node: string, options: Values, cli: CliContext): Promise<Marked> {
  return JSON.parse(await postAdmin(`/v1/cgn/nodes/${encodeURIComponent(node)}/${verb}`, options, cli)) as Marked;
}

async function say(verb: Verb, node: string, options: Values, cli: CliContext): Promise<number> {
  const { workers, inFlight } = await mark(verb, node, options, cli);
  const what = verb === "uncordon" ? "takes requests again" : "gets no new requests";
  cli.out(`${node}  ${what}: ${workers} ${workers === 1 ? "engine" : "engines"}, ${inFlight} requests run`);
  return 0;
}

/** @throws CgnError REQUEST_TIMEOUT when requests still run */
async function waitUntilIdle(node: string, options: Values, cli: CliContext): Promise<number> {
  const bar = startProgress(`drain ${node}`);
  const seconds = Number(options["timeout"]);
  const endMs = cli.clock.now() + seconds * 1000;
  for (;;) {
    const running = await inFlightOn(node, options, cli);
    if (running === 0) {
      bar.done("no request runs");
      cli.out(`${node}  drained`);
      return DRAINED;
    }
    if (cli.signal.aborted) {
      bar.stop("stays drained; cgn uncordon takes it back");
      return 0;
    }
    if (cli.clock.now() >= endMs) {
      bar.stop("too late");
      const message = `Cannot drain "${node}": ${running} requests still run after ${seconds} s. Wait longer with --timeout; it stays out of routing until cgn uncordon`;
      throw new CgnError("REQUEST_TIMEOUT", message, {});
    }
    bar.update(0, `${running} requests run`);
    await new Promise<void>((resolve) => cli.clock.after(LOOK_MS, resolve));
  }
}

/** Requests on a node or an engine. One that is gone has none. */
async function inFlightOn(node: string, options: Values, cli: CliContext): Promise<number> {
  const { workers } = JSON.parse(await askAdmin("/v1/cgn/status", options, cli)) as {
    readonly workers: readonly {
      readonly id: string;
      readonly node: string;
      readonly load: { readonly inFlight: number };
    }[];
  };
  return workers.filter((w) => w.id === node || w.node === node).reduce((sum, w) => sum + w.load.inFlight, 0);
}
