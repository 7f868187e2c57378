import { nodeId } from "../core/ids.ts";
import type { Member, MemberKind } from "../core/membership.ts";
import { MEMBER_KINDS } from "./member-json.ts";

/** The parts of a `discovery.k8s.io/v1` EndpointSlice that are read. */
export interface EndpointSlice {
  readonly metadata?: {
    readonly name?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly endpoints?: readonly {
    readonly addresses?: readonly string[];
    readonly conditions?: { readonly ready?: boolean | null };
    readonly targetRef?: { readonly name?: string };
    readonly nodeName?: string;
    readonly zone?: string;
  }[];
  readonly ports?: readonly { readonly name?: string; readonly port?: number; readonly appProtocol?: string }[];
}

const COMPONENT = "app.kubernetes.io/component";
/** Name of the port with a daemon's RPCs; a slice without it has them at its first port. */
const PORT = "rpc";

/**
 * The daemons behind a slice: one for each ready endpoint. Which kind they are is said by the service's label, which Kubernetes copies to
 * its slices. The pod's name is the member's id and node (an agent's `node_id` is its host name by default, which is the pod's).
 */
export function membersOfSlice(slice: EndpointSlice): readonly Member[] {
  const kind = slice.metadata?.labels?.[COMPONENT] as MemberKind | undefined;
  if (kind === undefined || !MEMBER_KINDS.includes(kind)) return [];
  const port = slice.ports?.find(({ name }) => name === PORT) ?? slice.ports?.[0];
  if (port?.port === undefined) return [];
  const scheme = port.appProtocol === "https" ? "https" : "http";
  return (slice.endpoints ?? []).flatMap((endpoint) => {
    const address = endpoint.addresses?.[0];
    // Not known counts as ready, as Kubernetes says.
    if (address === undefined || endpoint.conditions?.ready === false) return [];
    const name = endpoint.targetRef?.name ?? address;
    const labels = Object.entries({ host: endpoint.nodeName, zone: endpoint.zone }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const host = address.includes(":") ? `[${address}]` : address;
    const url = `${scheme}://${host}:${port.port}`;
    const more = labels.length === 0 ? {} : { labels: Object.fromEntries(labels) };
    return [{ kind, id: name, node: nodeId(name), url, epoch: 0, ...more }];
  });
}
