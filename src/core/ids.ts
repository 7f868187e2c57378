declare const brand: unique symbol;
type Branded<T, B extends string> = T & { readonly [brand]: B };

/** One engine process (or one data-parallel rank of it) as the router sees it, for example `node1/engine0`. */
export type WorkerId = Branded<string, "WorkerId">;
/** One agent's host name or `[agent].node_id`. */
export type NodeId = Branded<string, "NodeId">;
/** `x-request-id`: the client's if it sent one. */
export type RequestId = Branded<string, "RequestId">;

export const workerId = (text: string): WorkerId => text as WorkerId;
export const nodeId = (text: string): NodeId => text as NodeId;
export const requestId = (text: string): RequestId => text as RequestId;
