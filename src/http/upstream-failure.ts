/** How an exchange with an upstream failed. The only reader of errnos and undici's codes on this side. */
export interface UpstreamFailure {
  /**
   * `refused` nobody listens · `unreachable` no way to the host · `connect-timeout` · `reset` the connection ended before
   * the answer did · `timeout` no byte for too long · `protocol` not HTTP · `aborted` by us · `lost` the process
   * behind it is known to be gone · `unusable` an answer that cannot be passed on, and would come again.
   */
  readonly kind:
    | "refused"
    | "unreachable"
    | "connect-timeout"
    | "reset"
    | "timeout"
    | "protocol"
    | "aborted"
    | "lost"
    | "unusable";
  /** How far it had come: no connection yet, request sent, answer begun. */
  readonly phase: "connect" | "head" | "body";
  readonly message: string;
}

const KINDS: Readonly<Record<string, UpstreamFailure["kind"]>> = {
  ECONNREFUSED: "refused",
  ENOENT: "refused",
  ENOTFOUND: "unreachable",
  EAI_AGAIN: "unreachable",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
  ETIMEDOUT: "connect-timeout",
  UND_ERR_CONNECT_TIMEOUT: "connect-timeout",
  ECONNRESET: "reset",
  EPIPE: "reset",
  UND_ERR_SOCKET: "reset",
  UND_ERR_CLOSED: "reset",
  UND_ERR_DESTROYED: "reset",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "reset",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_ABORTED: "aborted",
};

/** Read what undici or a socket threw. An unknown code is `protocol` once there was a connection, else `unreachable`. */
export function readFailure(e: unknown, phase: UpstreamFailure["phase"]): UpstreamFailure {
  const error = e instanceof AggregateError && e.errors.length > 0 ? (e.errors[0] as unknown) : e;
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const kind = KINDS[code] ?? (phase === "connect" ? "unreachable" : "protocol");
  const said = error instanceof Error ? error.message : String(error);
  return { kind, phase, message: code === "" || said.includes(code) ? said : `${said} (${code})` };
}
