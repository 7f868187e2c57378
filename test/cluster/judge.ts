import { decisionsOf, type HostPlan } from "./daemons.ts";
import { type Sent, summary } from "./load.ts";
import { seconds } from "./world.ts";

/** What a case measured, and what it found wrong. */
export class Verdict {
  readonly figures: Record<string, unknown> = {};
  readonly wrong: string[] = [];

  note(figures: Readonly<Record<string, unknown>>): void {
    Object.assign(this.figures, figures);
  }

  must(isSo: boolean, what: string): void {
    if (!isSo) this.wrong.push(what);
  }

  /**
   * Nothing of the load failed.
   * @param mayCut nodes that died: a stream that had begun there may end with an explicit error
   */
  answered(sent: readonly Sent[], { mayCut = [] }: { readonly mayCut?: readonly string[] } = {}): void {
    this.note(summary(sent));
    const bad = sent.filter(({ end, node }) => end === "failed" || (end === "cut" && !mayCut.includes(node)));
    const words = new Set(
      bad.map(({ end, status, router, node, said }) => `${end} ${status} ${router} ${node} ${said}`),
    );
    this.must(bad.length === 0, `${bad.length} requests failed: ${[...words].slice(0, 3).join("; ")}`);
    this.must(sent.length > 0, "there was no load");
  }

  /** Requests that came after `deadAt + leaseMs` were not sent to that node. Both are wall-clock times of this process. */
  async routedAway(
    routers: readonly HostPlan[],
    node: string,
    { deadAt, until, leaseMs }: { readonly deadAt: number; readonly until: number; readonly leaseMs: number },
  ): Promise<void> {
    const decisions = (await Promise.all(routers.map(decisionsOf))).flat();
    const there = decisions
      .filter(({ at, attempts }) => at > deadAt && at < until && attempts.some((attempt) => attempt.node === node))
      .map(({ at }) => at - deadAt);
    const last = Math.max(0, ...there);
    this.note({ sent_to_it_dead: there.length, last_sent_there_s: seconds(last) });
    this.must(last <= leaseMs, `a request was sent to ${node} ${seconds(last)} s after its death`);
  }
}
