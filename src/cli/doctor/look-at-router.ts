import { isCgnError } from "../../core/errors.ts";
import type { Dashboard } from "../../web/page/data.ts";
import { troublesOf } from "../../web/page/troubles.ts";
import { askAdmin } from "../admin-client.ts";
import type { CliContext, Values } from "../command.ts";
import type { Diagnosis } from "./diagnosis.ts";

/** What a router that runs says is wrong: what its dashboard lists, alarms of tokenizers, parity and events among it. */
export async function lookAtRouter(options: Values, cli: Pick<CliContext, "env" | "cwd">): Promise<Diagnosis[]> {
  const area = "running cgn";
  try {
    const text = await askAdmin("/v1/cgn/dashboard", options, cli);
    return routerFindings(JSON.parse(text) as Dashboard, String(options["admin"]));
  } catch (e) {
    if (e instanceof SyntaxError) {
      const what = `what answers at ${String(options["admin"])} is no cgn`;
      return [{ area, level: "note", what, mend: "Name the router's admin port with --admin" }];
    }
    if (isCgnError(e, "DEPENDENCY_UNREACHABLE")) {
      return [{ area, level: "note", what: `none answers at ${String(options["admin"])}`, mend: "cgn up starts one" }];
    }
    if (!isCgnError(e)) throw e;
    const { status } = e.details as { readonly status?: number };
    if (status !== 401 && status !== 403) {
      const what = `what answers at ${String(options["admin"])} is no cgn, or its admin port serves no views there: ${e.message}`;
      return [{ area, level: "note", what, mend: "Name the router's admin port with --admin" }];
    }
    return [{ area, level: "warning", what: e.message, mend: "Give a key of scope metrics with --key-file" }];
  }
}

/** A copy of a kvcached's index elsewhere. */
interface Mirror {
  readonly kvcached: string;
  readonly state: string;
  readonly reason?: string;
}

/** Pure part of `lookAtRouter()`. */
export function routerFindings(dashboard: Dashboard, admin: string): Diagnosis[] {
  const area = "running cgn";
  const { node, models, workers } = dashboard.status;
  const troubles = troublesOf(dashboard).map(({ level, who, what, remedy }): Diagnosis => {
    const alarm = /^([A-Z]+(?:_[A-Z]+)+) for /.exec(what)?.[1];
    return {
      area,
      level: level === "bad" ? "error" : "warning",
      what: `${who}: ${what}`,
      ...(remedy === undefined ? {} : { mend: remedy }),
      ...(alarm === undefined ? {} : { code: alarm }),
    };
  });
  const { mirrors = [] } =
    (dashboard.status as { readonly sources?: { readonly mirrors?: readonly Mirror[] } }).sources ?? {};
  const lost = mirrors.flatMap(({ kvcached, state, reason }): Diagnosis[] => {
    if (state !== "lost") return [];
    const what = `kvcached ${kvcached} cannot be reached: ${reason ?? "no answer"}`;
    const why = "the router goes on with its copy of the index, which is no longer kept up to date";
    return [
      { area, level: "warning", what, why, mend: "Start it, or see the network between them", code: "kvcached-lost" },
    ];
  });
  const ready = models.filter((model) => model.ready > 0).length;
  const what = `${node} at ${admin}: ${ready} of ${models.length} models ready on ${workers.length} engines`;
  return [{ area, level: "good", what }, ...troubles, ...lost];
}
