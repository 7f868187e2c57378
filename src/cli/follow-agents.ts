import { type Followed, followMembers } from "../cluster/follow-members.ts";
import { type MergedDirectory, mergeDirectories } from "../cluster/merge-directories.ts";
import { awakeClock } from "../core/awake-clock.ts";
import type { Clock } from "../core/clock.ts";
import type { Membership } from "../core/membership.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { followAgent } from "../wire/agent-client.ts";
import { allLoaders, remoteLoader } from "../wire/agent-loader.ts";
import type { WireTls } from "../wire/tls.ts";
import { reachEngines } from "./reach-engines.ts";
import { wireAddress } from "./wire-address.ts";

export interface FollowedAgents {
  /** The engines of all agents, behind those of the directories given. */
  readonly directory: MergedDirectory;
  /** All agents, as those who load models. */
  readonly loader: ModelLoader;
  /** Resolves when each agent that is listed now has told its engines, or could not be reached; after `ms` at the latest. */
  settled(ms: number): Promise<void>;
  close(): void;
}

export interface FollowAgentsOptions {
  /** Whose agents are followed: those that flags name, and those of the cluster. */
  readonly memberships: readonly Membership[];
  readonly clock: Clock;
  readonly tls: WireTls;
  readonly first?: readonly WorkerDirectory[];
  /** Engines of a host that answers nothing at all for so long count as down. By default as those of an agent that restarts. */
  readonly hostLostMs?: number;
}

/** Follow every agent that there is, as they come and go. */
export function followAgents(options: FollowAgentsOptions): FollowedAgents {
  const { memberships, clock, tls, first = [], hostLostMs } = options;
  // A router that was stopped for a while must not take all engines for dead, and end what runs there.
  const patient = awakeClock(clock);
  const directory = mergeDirectories(first);
  const open = ({
    url,
  }: {
    readonly url: string;
  }): Followed & { readonly loader: ModelLoader; readonly first: Promise<void> } => {
    const address = wireAddress(url);
    const agent = followAgent({ address, clock: patient, tls, ...(hostLostMs === undefined ? {} : { hostLostMs }) });
    const loader = remoteLoader(address, clock, tls);
    const reached = "url" in address ? reachEngines(agent, { agentUrl: address.url, tls }) : undefined;
    const leave = directory.add(reached ?? agent);
    return {
      loader,
      first: agent.first,
      // Silent for a moment is not gone: whether its lease ran out is etcd's word, and that may be slow too.
      isLive: () => agent.health().ok || agent.list().some(({ unheard }) => unheard !== undefined),
      close() {
        leave();
        reached?.close();
        agent.close();
        loader.close();
      },
    };
  };
  const followed = memberships.map((membership) => followMembers({ membership, kind: "agent", clock, open }));
  const loaders = () => allLoaders(followed.flatMap((each) => each.all()).map((each) => each.followed.loader));
  return {
    directory,
    loader: {
      demand: (router, demand) => loaders().demand(router, demand),
      load: (name) => loaders().load(name),
      unload: (name) => loaders().unload(name),
    },
    async settled(ms) {
      const firsts = followed.flatMap((each) => each.all()).map((each) => each.followed.first);
      const end = Promise.withResolvers<void>();
      const cancel = clock.after(ms, end.resolve);
      await Promise.race([Promise.all(firsts), end.promise]);
      cancel();
    },
    close() {
      for (const each of followed) each.close();
      directory.close();
    },
  };
}
