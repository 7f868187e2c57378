/** How a process is to be stopped. */
export interface StopRequest {
  /**
   * How long its requests may end before SIGTERM, in milliseconds; 0: it gets SIGTERM at once, also when it drains already.
   * Default: its policy's, which is 0 for engines that drain by themselves on SIGTERM.
   */
  readonly drainMs?: number;
  /** Why it does not run then, for people. Default "stopped". */
  readonly why?: string;
}
