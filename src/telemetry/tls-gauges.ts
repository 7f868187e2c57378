import type { Metrics } from "./metrics.ts";

/** What is counted of a process's key material (`wire/tls.ts`). */
interface Counted {
  /** Our certificate's end in milliseconds since 1970; undefined: there is none. */
  readonly endsAt: number | undefined;
  /** "": the files are used as they are. */
  readonly problem: string;
  /** Connections refused since the start. */
  readonly refused: number;
}

/** Export how the key material stands, for alarms (deploy/prometheus/cgn-rules.yml). The result ends it. */
export function countTls(metrics: Metrics, tls: { status(): Counted }): () => void {
  let told = 0;
  return metrics.onScrape(() => {
    const { endsAt, problem, refused } = tls.status();
    if (endsAt === undefined) return;
    metrics.gauge("cgn_tls_certificate_expiry_timestamp_seconds").set(Math.floor(endsAt / 1_000));
    metrics.gauge("cgn_tls_files_usable").set(problem === "" ? 1 : 0);
    metrics.counter("cgn_tls_refused_total").inc(refused - told);
    told = refused;
  });
}
