import type { Dashboard, EngineDetail, Worker } from "./data.ts";
import { h, type View } from "./element.ts";
import { count, duration, percent } from "./format.ts";
import { bar, stateTag } from "./parts.ts";
import type { Actions, Logs } from "./state.ts";

/** One engine: how it is, what it does, and what can be done with it. */
export function engineCard(worker: Worker, data: Dashboard, logs: Logs | undefined, act: Actions): View {
  const detail = data.engines[worker.id.replace(/#dp\d+$/, "")];
  const why = (worker.whyNot ?? (worker.state === "ready" ? "" : worker.reason)).replace(`${worker.state}: `, "");
  const shown = shownState(worker);
  return h(
    "article",
    {
      key: worker.id,
      class: `card engine ${HELD.has(shown) ? "held" : worker.state}${logs === undefined ? "" : " open"}`,
      "aria-label": `Engine ${worker.id}`,
    },
    [
      h("h3", {}, [h("span", { class: "name" }, worker.id), stateTag(shown, HELD.has(shown) ? "warn" : undefined)]),
      h("p", { class: "soft facts" }, facts(worker, detail).join(" · ")),
      detail?.progress === undefined || worker.state !== "starting" ? null : progress(detail.progress),
      why === "" ? null : h("p", { class: `why ${worker.state === "down" ? "bad" : ""}` }, why),
      worker.state === "ready" || worker.load.inFlight > 0 ? gauges(worker, data) : null,
      actions(worker, data, logs !== undefined, act),
      logs === undefined ? null : logBox(worker.id, logs),
    ],
  );
}

const HELD = new Set(["held back", "draining", "cordoned"]);

/** A mark of the router's, or its circuit breaker, keeps a ready engine out of its choice. */
function shownState({ state, takesRequests, whyNot = "" }: Worker): string {
  if (state !== "ready" || takesRequests) return state;
  return whyNot.startsWith("draining") ? "draining" : whyNot.startsWith("cordoned") ? "cordoned" : "held back";
}

function facts(worker: Worker, detail: EngineDetail | undefined): string[] {
  const out = [worker.models.join(", ") || "model not known yet", worker.kind];
  if (worker.role !== "both") out.push(worker.role);
  if (detail?.kvOffload !== undefined) out.push(`offload ${detail.kvOffload}`);
  if (worker.onDemand === true) out.push("on demand");
  if (detail?.spawned === false) out.push("not started by cgn");
  if ((detail?.starts ?? 0) > 1) out.push(`${detail?.starts} starts`);
  return out;
}

/** How far a load is, nobody knows; how long it took, and how long it may, do. */
function progress({ elapsedMs, deadlineMs, lastLine }: NonNullable<EngineDetail["progress"]>): View {
  return h("div", { class: "loading" }, [
    h("label", {}, [
      `Loading for ${duration(elapsedMs)}, given up after ${duration(deadlineMs)}`,
      h("progress", { max: deadlineMs, value: Math.min(elapsedMs, deadlineMs) }),
    ]),
    lastLine === "" ? null : h("code", { class: "line" }, lastLine),
  ]);
}

function gauges(worker: Worker, { gauges: all }: Dashboard): View {
  const gauge = all[worker.id];
  const { requests, promptTokens, predictedTokens, reportedTokens } = worker.cache;
  const share = (tokens: number): number | undefined =>
    promptTokens > 0 ? Math.min(1, tokens / promptTokens) : undefined;
  return h("dl", { class: "pairs" }, [
    h("dt", {}, "Requests"),
    h("dd", {}, `${worker.load.inFlight} in flight, ${count(worker.load.queuedTokens)} tokens to prefill`),
    ...(gauge?.running === undefined
      ? []
      : [
          h("dt", { title: "All that run there, of other routers and clients too" }, "Its count"),
          h("dd", {}, `${gauge.running} running${gauge.waiting === undefined ? "" : `, ${gauge.waiting} waiting`}`),
        ]),
    ...(gauge?.kvUsage === undefined ? [] : [h("dt", {}, "KV in use"), h("dd", {}, bar(gauge.kvUsage, "kv"))]),
    h("dt", {}, "Cached"),
    h("dd", {}, requests === 0 ? "no figures yet" : bar(share(reportedTokens), "hit")),
    h("dt", {}, "Predicted"),
    h("dd", {}, requests === 0 ? "–" : bar(share(predictedTokens), "guess")),
    ...(requests === 0 ? [] : [h("dt", {}, "Right by"), h("dd", {}, rightBy(predictedTokens, reportedTokens))]),
  ]);
}

/** Predicted of reported, in words. */
function rightBy(predicted: number, reported: number): string {
  if (predicted === reported) return `exactly: ${count(reported)} tokens`;
  const off = Math.abs(predicted - reported) / Math.max(predicted, reported);
  return `${percent(1 - off)}: ${count(predicted)} predicted, ${count(reported)} reported`;
}

function actions(worker: Worker, data: Dashboard, hasLogs: boolean, act: Actions): View {
  const { id } = worker;
  const button = (name: string, onClick: (from: string) => void, more: object = {}): View => {
    const from = `${name}-${id}`;
    return h("button", { type: "button", class: "quiet", id: from, key: name, onClick: () => onClick(from), ...more }, [
      name,
      h("span", { class: "hidden" }, ` ${id}`),
    ]);
  };
  const mark = (verb: string): string => `/v1/cgn/nodes/${encodeURIComponent(id)}/${verb}`;
  const held = !worker.takesRequests && /drain|cordon/.test(worker.whyNot ?? "");
  const buttons: View[] = [];
  if (held) buttons.push(button("Uncordon", () => act.act(mark("uncordon"), `${id} takes requests again`)));
  else if (worker.state === "ready") {
    const drain = (from: string): void =>
      act.ask({
        text: `Drain ${id}? It gets no new requests; what runs there ends.`,
        verb: "Drain",
        path: mark("drain"),
        from,
      });
    const cordon = (from: string): void =>
      act.ask({
        text: `Cordon ${id}? It gets no new requests until it is uncordoned.`,
        verb: "Cordon",
        path: mark("cordon"),
        from,
      });
    buttons.push(button("Drain", drain), button("Cordon", cordon));
  }
  if (data.can.load && (worker.onDemand === true || worker.state === "unloaded" || worker.state === "asleep")) {
    const path = (verb: string): string => `/v1/cgn/models/${encodeURIComponent(id)}/${verb}`;
    if (worker.state === "unloaded" || worker.state === "asleep")
      buttons.push(button("Load", () => act.act(path("load"), `${id} is being loaded`)));
    else {
      const unload = (from: string): void =>
        act.ask({ text: `Unload ${id}? Requests on it end first.`, verb: "Unload", path: path("unload"), from });
      buttons.push(button("Unload", unload));
    }
  }
  if (data.can.logs) buttons.push(button("Log", () => act.toggleLogs(id), { "aria-expanded": hasLogs }));
  return h("div", { class: "row actions" }, buttons);
}

function logBox(id: string, { lines, error }: Logs): View {
  if (error !== undefined) return h("p", { class: "soft" }, error);
  const text = lines.length === 0 ? "It wrote nothing yet." : lines.join("\n");
  return h("pre", { class: "log", tabIndex: 0, role: "region", "aria-label": `Last lines of ${id}` }, text);
}
