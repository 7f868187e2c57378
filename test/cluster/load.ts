import { type Asked, ask, type HostPlan } from "./daemons.ts";

/** One request of the load: who answered, and when it was sent. */
export interface Sent extends Asked {
  /** Of `performance.now()`. */
  readonly at: number;
  readonly router: string;
  /** Another router was asked because the first one could not be reached, or takes no more. */
  readonly turned: boolean;
}

export interface Load {
  /** No more are sent; resolves when all are answered. */
  stop(): Promise<readonly Sent[]>;
}

export interface LoadOptions {
  readonly perSecond: number;
  /** As a client with two addresses: a router that is not there, or says that it ends, is left for the next one. */
  readonly turns?: boolean;
  /** Each request is a chat of its own under this name, so that no engine has its prefix yet. */
  readonly newChats?: string;
}

/**
 * Requests to the routers in turn, at a fixed pace whether or not answers come: every fifth one streams. Prompts are those of some chats
 * that go on, so prefixes matter.
 */
export function startLoad(routers: readonly HostPlan[], { perSecond, turns = false, newChats }: LoadOptions): Load {
  const running: Promise<Sent>[] = [];
  let n = 0;
  const sendOne = (): void => void running.push(send(routers, n++, turns, newChats));
  sendOne();
  const timer = setInterval(sendOne, 1_000 / perSecond);
  return {
    async stop() {
      clearInterval(timer);
      return await Promise.all(running);
    },
  };
}

async function send(
  routers: readonly HostPlan[],
  n: number,
  turns: boolean,
  newChats: string | undefined,
): Promise<Sent> {
  const at = performance.now();
  const chat = newChats === undefined ? `Chat ${n % 7}` : `${newChats} ${n}`;
  const text = `${chat} has been going on for long. `.repeat(6) + `Turn ${Math.floor(n / 7)}. `.repeat(4);
  const question = n % 5 === 0 ? { text, stream: true, maxTokens: 24 } : { text };
  const tries = turns ? 4 : 1;
  let turned = false;
  for (let tried = 0; ; tried++) {
    const router = routers[(n + tried) % routers.length]!;
    const answer = await ask(router, question);
    const isLast = tried + 1 >= tries;
    if (answer.end === "ok" || !answer.isFresh || isLast) {
      return { ...answer, at, ms: Math.round(performance.now() - at), router: router.name, turned };
    }
    turned = true;
    // As the usual clients do.
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** tried));
  }
}

/** What the load came to, for the table. */
export function summary(sent: readonly Sent[]): Record<string, number> {
  const times = sent.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number): number => Math.round((times[Math.floor(share * (times.length - 1))] ?? 0) / 10) / 100;
  const count = (is: (one: Sent) => boolean): number => sent.filter(is).length;
  const cut = count(({ end }) => end === "cut");
  const turned = count((one) => one.turned);
  return {
    requests: sent.length,
    failed: count(({ end }) => end === "failed"),
    ...(cut > 0 ? { streams_cut: cut } : {}),
    ...(turned > 0 ? { asked_another_router: turned } : {}),
    p50_s: at(0.5),
    slowest_s: at(1),
  };
}
