import { createHash } from "node:crypto";
import { join, resolve } from "node:path";
import { EtcdClient } from "../cluster/etcd-client.ts";
import { openEtcdMembership } from "../cluster/etcd-membership.ts";
import { keepMarks } from "../cluster/kept-marks.ts";
import { openKubernetesMembership } from "../cluster/kubernetes-membership.ts";
import { createMemoryMembership } from "../cluster/memory-membership.ts";
import { openStaticMembership } from "../cluster/static-membership.ts";
import { readMemberFile } from "../config/member-file.ts";
import type { HostPort, Settings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import { nodeId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { Member, MemberKind, Membership } from "../core/membership.ts";
import { hostPort } from "../engines/address.ts";
import { openTls } from "../wire/tls.ts";
import { wireAddress } from "./wire-address.ts";

export interface MembershipDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** An etcd that does not answer is not waited for. By default it is, for as long as a lease: it may be starting too. */
  readonly isImpatient?: boolean;
}

type MembershipSettings = Pick<Settings, "cluster" | "security" | "file"> & {
  readonly agent: Pick<Settings["agent"], "stateDir">;
  readonly router: Pick<Settings["router"], "listenHttp">;
};

/**
 * Where this host keeps marks of nodes. Names of nodes mean something within one configuration alone: another one's "node-1" is another engine. Without a
 * file the endpoint's address stands for it.
 */
export function marksFile({ cluster, agent, file, router }: Omit<MembershipSettings, "security">): string {
  const { host, port } = router.listenHttp;
  const whose = createHash("sha256")
    .update(file === undefined ? hostPort(host, port) : resolve(file))
    .digest("hex")
    .slice(0, 12);
  return join(cluster.dataDir ?? agent.stateDir, `marks-${encodeURIComponent(cluster.name)}-${whose}.json`);
}

/**
 * Join the cluster that `[cluster]` names. With `memory` nobody is there but those that flags name.
 * @throws CgnError DEPENDENCY_UNREACHABLE (etcd or Kubernetes do not answer now), CONFIG_INVALID, TLS_INVALID
 */
export async function openMembership(settings: MembershipSettings, deps: MembershipDeps): Promise<Membership> {
  const { cluster } = settings;
  const { clock, log } = deps;
  const keptMarks = (membership: Membership): Membership => keepMarks(membership, marksFile(settings), log);
  switch (cluster.stateBackend) {
    case "memory":
      return keptMarks(createMemoryMembership());
    case "static": {
      const file = cluster.staticFile;
      if (file === undefined)
        throw unusable("static", "static_file is not set", "Name the file that lists the daemons");
      return keptMarks(openStaticMembership({ file, parse: readMemberFile, clock, log }));
    }
    case "kubernetes":
      return keptMarks(await openKubernetesMembership({ ...cluster.kubernetes, clock, log }));
    case "etcd":
      return await openEtcd(settings, deps);
    case "gossip":
      throw unusable(
        "gossip",
        "cgn has no gossip",
        'Write "etcd" with etcd_endpoints, "static" with static_file or "kubernetes"; or "memory", and name the other daemons by flags',
      );
  }
}

async function openEtcd(
  { cluster, security }: MembershipSettings,
  { clock, log, isImpatient = false }: MembershipDeps,
): Promise<Membership> {
  if (cluster.etcdEndpoints.length === 0) {
    throw unusable("etcd", "etcd_endpoints is not set", "Name the members of etcd, for example http://127.0.0.1:2379");
  }
  const { caFile = security.caFile, certFile, keyFile } = cluster.etcdTls;
  const files = Object.fromEntries(
    Object.entries({ caFile, certFile, keyFile }).filter(([, file]) => file !== undefined),
  );
  const tls = openTls({ ...files, requireMtls: false }, { clock, log });
  const client = new EtcdClient({
    endpoints: cluster.etcdEndpoints,
    clock,
    tls: () => tls.clientOptions(),
    ...(cluster.etcdUser === undefined ? {} : { user: cluster.etcdUser }),
  });
  const ttlS = Math.max(1, Math.ceil(cluster.leaseTtlMs / 1000));
  const onClose = (): void => tls.close();
  const patienceMs = isImpatient ? 0 : cluster.leaseTtlMs;
  return await openEtcdMembership({ client, cluster: cluster.name, ttlS, clock, log, onClose, patienceMs });
}

/** What a daemon says of itself. `at`: where it listens for RPCs. */
export function ownMember(
  kind: MemberKind,
  at: HostPort & { readonly scheme: "http" | "https" },
  node: string,
  { cluster }: Pick<Settings, "cluster">,
  clock: Clock,
): Member {
  const isAny = at.host === "0.0.0.0" || at.host === "::";
  const host = cluster.advertiseHost ?? (isAny ? (cluster.hostAddress ?? "127.0.0.1") : at.host);
  // Several of a kind may run on one host, but an agent's node_id is its own.
  const id = kind === "agent" ? node : `${node}:${at.port}`;
  return {
    kind,
    id,
    node: nodeId(node),
    url: `${at.scheme}://${hostPort(host, at.port)}`,
    epoch: Math.round(clock.wall()),
  };
}

/** Daemons that flags name, by URL or `unix:PATH`. @throws CgnError BAD_INVOCATION */
export function namedMembers(kind: MemberKind, texts: readonly string[]): Membership {
  for (const text of texts) wireAddress(text);
  return createMemoryMembership(
    texts.map((url) => ({ kind, id: url, node: nodeId(url), url: url.replace(/\/+$/, ""), epoch: 0 })),
  );
}

function unusable(backend: string, is: string, right: string): CgnError {
  const message = `Cannot join a cluster by [cluster].state_backend = "${backend}": ${is}. ${right}`;
  const problem = { severity: "error", path: "cluster.state_backend", problem: is, remedy: right } as const;
  return new CgnError("CONFIG_INVALID", message, { problems: [problem] }) as CgnError;
}
