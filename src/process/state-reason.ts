import type { Event, Policy, State } from "./lifecycle.ts";

/** What the state alone does not tell. */
interface Told {
  /** Why a sick process was sick. */
  readonly hung: string;
  /** Why it was to stop, where somebody said so. */
  readonly stopped: string | undefined;
}

/** Why a process is in a state that it came into without a reason given, for people. */
export function stateReason(
  state: State,
  before: State,
  event: Event,
  policy: Policy,
  { hung, stopped }: Told,
): string {
  switch (state.at) {
    case "starting":
      // An engine that was never ready is given fewer attempts.
      return state.attempt <= 1
        ? "loading"
        : `loading, attempt ${state.attempt} of ${state.proven ? policy.maxAttempts : policy.firstAttempts}`;
    case "draining":
      return "waiting for its requests to end";
    case "stopped":
      return stopped ?? "stopped";
    case "killing":
      return before.at === "sick" ? `killed: ${hung}` : event === "tick" ? "not ready in time" : "killed";
    default:
      return state.at;
  }
}
