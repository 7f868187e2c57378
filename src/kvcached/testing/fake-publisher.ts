import { Publisher, Router } from "zeromq";
import type { Clock } from "../../core/clock.ts";

/** An engine's KV event publisher on real sockets, which loses messages, restarts and forgets as it is told. */
export interface FakePublisher {
  readonly endpoint: string;
  readonly replay: string;
  /** Publish the next message, or only keep it for replays. */
  publish(payload: Uint8Array, lose?: boolean): Promise<void>;
  /** Send frames that are no message. */
  garbage(frames: Uint8Array[]): Promise<void>;
  /** Forget all messages before this sequence number. */
  forget(before: number): void;
  close(): void;
}

export interface FakePublisherOptions {
  readonly topic?: string;
  /** Older engines leave the topic out of replays. */
  readonly replayTopic?: boolean;
  /** Listen where an earlier one did. */
  readonly endpoint?: string;
  readonly replay?: string;
}

export async function startFakePublisher(options: FakePublisherOptions = {}): Promise<FakePublisher> {
  const { topic = "", replayTopic = true } = options;
  const pub = new Publisher({ linger: 0 });
  const router = new Router({ linger: 0 });
  await bound(() => pub.bind(options.endpoint ?? "tcp://127.0.0.1:*"));
  await bound(() => router.bind(options.replay ?? "tcp://127.0.0.1:*"));
  const log: (Uint8Array | undefined)[] = [];
  void serve(router, log, replayTopic ? [topic] : []);
  return {
    endpoint: pub.lastEndpoint as string,
    replay: router.lastEndpoint as string,
    async publish(payload, lose = false) {
      log.push(payload);
      if (!lose) await pub.send([topic, sequence(log.length - 1), payload]);
    },
    garbage: (frames) => pub.send(frames),
    forget: (before) => log.fill(undefined, 0, before),
    close() {
      pub.close();
      router.close();
    },
  };
}

/** A closed socket's port comes free a little later: libzmq closes in a thread of its own. */
async function bound(bind: () => Promise<void>, attempts = 100): Promise<void> {
  for (let i = 1; ; i++) {
    try {
      await bind();
      return;
    } catch (error) {
      if (i === attempts) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function serve(
  router: Router,
  log: readonly (Uint8Array | undefined)[],
  topic: readonly string[],
): Promise<void> {
  try {
    for await (const [peer, , start] of router) {
      if (peer === undefined || start === undefined) continue;
      for (let seq = Number(start.readBigUInt64BE()); seq < log.length; seq++) {
        const payload = log[seq];
        if (payload !== undefined) await router.send([peer, "", ...topic, sequence(seq), payload]);
      }
      await router.send([peer, "", ...topic.map(() => ""), Buffer.alloc(8, 0xff), ""]);
    }
  } catch {
    // Closed.
  }
}

function sequence(seq: number): Buffer {
  const frame = Buffer.alloc(8);
  frame.writeBigUInt64BE(BigInt(seq));
  return frame;
}

/** The real clock, for tests on real sockets. */
export const REAL_CLOCK: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

/** Wait until something holds, a minute at most: a machine may be busy. */
export async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end; ) {
    if (await done()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`never came: ${done}`);
}
