export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Host and port of `tcp://host:port`; undefined for any other form. */
export function parseEndpoint(endpoint: string): HostPort | undefined {
  const match = /^tcp:\/\/(.+):(\d+)$/.exec(endpoint);
  return match === null ? undefined : { host: match[1]!, port: Number(match[2]) };
}
