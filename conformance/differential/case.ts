/** One request that is sent to a real engine and to the simulated one. */
export interface Case {
  /** Unique; what a difference is reported under. */
  readonly name: string;
  readonly method: "GET" | "POST" | "PUT" | "DELETE" | "OPTIONS" | "HEAD";
  readonly path: string;
  /** A string goes out as it is, anything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A case that posts JSON. */
export const post = (name: string, path: string, body: unknown, headers?: Readonly<Record<string, string>>): Case => ({
  name,
  method: "POST",
  path,
  body,
  ...(headers === undefined ? {} : { headers }),
});

/** A case that reads. */
export const get = (path: string): Case => ({ name: `GET ${path}`, method: "GET", path });
