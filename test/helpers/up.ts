import { type CgnProcess, freePorts, pidsWith, scratch, startCgn, until } from "./cgn-process.ts";

/** A whole stack: `cgn up` on a file of its own. */
export interface Up extends CgnProcess {
  readonly url: string;
  readonly admin: string;
  readonly enginePorts: readonly [number, number];
  /** Process ids of an engine's leader and of what watches it, by its port. */
  enginePids(port: number): number[];
  stop(): Promise<number>;
}

export interface UpPorts {
  readonly http: number;
  readonly admin: number;
  readonly engines: readonly [number, number];
}

/** Starts `cgn up` and waits until all engines are ready. */
export async function startUp(toml: (ports: UpPorts, stateDir: string) => string, ready = 2): Promise<Up> {
  const [http = 0, admin = 0, one = 0, two = 0] = await freePorts(4);
  const place = scratch();
  const file = place.file("cgn.toml", toml({ http, admin, engines: [one, two] }, place.dir));
  const up = startCgn(["up", "--config", file], { XDG_RUNTIME_DIR: place.dir, XDG_STATE_HOME: place.dir }, place.dir);
  const adminUrl = `http://127.0.0.1:${admin}`;
  try {
    await until(
      "engines ready",
      150_000,
      async () => {
        if (up.child.exitCode !== null) throw new Error(`cgn up ended with ${up.child.exitCode}\n${up.output()}`);
        return (await readyWorkers(adminUrl)) >= ready ? true : undefined;
      },
      up.output,
    );
  } catch (e) {
    up.child.kill("SIGKILL");
    place.dispose();
    throw e;
  }
  return {
    ...up,
    url: `http://127.0.0.1:${http}`,
    admin: adminUrl,
    enginePorts: [one, two],
    enginePids: (port) => pidsWith("--port", String(port)),
    async stop() {
      if (up.child.exitCode === null && up.child.signalCode === null) up.child.kill("SIGTERM");
      const code = await up.exit;
      place.dispose();
      return code;
    },
  };
}

/** How many workers the router can choose. 0 while it does not answer. */
export async function readyWorkers(admin: string): Promise<number> {
  try {
    const status = (await (await fetch(`${admin}/v1/cgn/status`)).json()) as { workers?: { state: string }[] };
    return (status.workers ?? []).filter((w) => w.state === "ready").length;
  } catch {
    return 0;
  }
}

export interface ChatReply {
  readonly status: number;
  readonly node: string;
  readonly predicted: number;
  readonly cached: number | undefined;
  readonly promptTokens: number | undefined;
  readonly text: string;
  /** The error event or body, where there was one. */
  readonly error: string | undefined;
  readonly finished: boolean;
}

interface Body {
  readonly choices?: readonly {
    readonly message?: { readonly content?: string };
    readonly delta?: { readonly content?: string | null };
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: { readonly message?: string };
}

/** One chat through the router, streamed or not. Never throws for what the server says. */
export async function chat(url: string, body: Readonly<Record<string, unknown>>): Promise<ChatReply> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const head = {
    status: response.status,
    node: response.headers.get("x-cgn-node") ?? "",
    predicted: Number(response.headers.get("x-cgn-predicted-cached-tokens") ?? 0),
  };
  let raw = "";
  let cut: string | undefined;
  try {
    for await (const part of response.body!.pipeThrough(
      new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>,
    ))
      raw += part;
  } catch (e) {
    cut = (e as Error).message;
  }
  return {
    ...head,
    ...(body["stream"] === true && response.status === 200 ? readSse(raw) : readJson(raw)),
    ...(cut === undefined ? {} : { error: cut, finished: false }),
  };
}

function figures(body: Body): { cached: number | undefined; promptTokens: number | undefined } {
  return { cached: body.usage?.prompt_tokens_details?.cached_tokens, promptTokens: body.usage?.prompt_tokens };
}

function readJson(raw: string): Omit<ChatReply, "status" | "node" | "predicted"> {
  const body = JSON.parse(raw) as Body;
  return {
    ...figures(body),
    text: body.choices?.[0]?.message?.content ?? "",
    error: body.error?.message,
    finished: body.error === undefined,
  };
}

function readSse(raw: string): Omit<ChatReply, "status" | "node" | "predicted"> {
  const chunks = raw
    .split("\n")
    .filter((line) => line.startsWith("data: ") && line !== "data: [DONE]")
    .map((line) => JSON.parse(line.slice(6)) as Body);
  const usage = chunks.findLast((c) => c.usage);
  return {
    ...figures(usage ?? {}),
    text: chunks.map((c) => c.choices?.[0]?.delta?.content ?? "").join(""),
    error: chunks.find((c) => c.error)?.error?.message,
    finished: raw.includes("data: [DONE]"),
  };
}
