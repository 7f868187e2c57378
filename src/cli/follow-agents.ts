import { type Followed, followMembers } from "../cluster/follow-members.ts";
import { type MergedDirectory, mergeDirectories } from "../cluster/merge-directories.ts";
import type { Clock } from "../core/clock.ts";
import type { Membership } from "../core/membership.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import type { WorkerDirectory } from "../core/worker.ts";
import { followAgent } from "../wire/agent-client.ts";
import { allLoaders, remoteLoader } from "../wire/agent-loader.ts";
import type { WireTls } from "../wire/tls.ts";
import { wireAddress } from "./wire-address.ts";

export interface FollowedAgents {
  /** The engines of all agents, behind those of the directories given. */
  readonly directory: MergedDirectory;
  /** All agents, as those who load models. */
  readonly loader: ModelLoader;
  close(): void;
}

export interface FollowAgentsOptions {
  /** Whose agents are followed: those that flags name, and those of the cluster. */
  readonly memberships: readonly Membership[];
  readonly clock: Clock;
  readonly tls: WireTls;
  readonly first?: readonly WorkerDirectory[];
}

/** Follow every agent that there is, as they come and go. */
export function followAgents({ memberships, clock, tls, first = [] }: FollowAgentsOptions): FollowedAgents {
  const directory = mergeDirectories(first);
  const open = ({ url }: { readonly url: string }): Followed & { readonly loader: ModelLoader } => {
    const address = wireAddress(url);
    const agent = followAgent({ address, clock, tls });
    const loader = remoteLoader(address, clock, tls);
    const leave = directory.add(agent);
    return {
      loader,
      isLive: () => agent.health().ok,
      close() {
        leave();
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
    close() {
      for (const each of followed) each.close();
      directory.close();
    },
  };
}
