import type { Dashboard, RequestRow } from "./data.ts";
import { h, type View } from "./element.ts";
import { ago, duration, percent, plural } from "./format.ts";
import { requestHref } from "./state.ts";

/** Marks of one engine: more do not fit a line. */
const MARKS = 40;
/** So many lanes without a request: the rest of a large fleet is a number, or the engines' cards would be screens away. */
const IDLE = 6;

/** A lane an engine, with its last requests; refused ones have a lane of their own. */
export function flowMap({ status, requests, now }: Dashboard): View {
  const lanes = new Map<string, RequestRow[]>(status.workers.map(({ id }) => [id, []]));
  for (const request of requests) {
    const lane = request.worker ?? "no engine";
    const marks = lanes.get(lane);
    if (marks === undefined) lanes.set(lane, [request]);
    else marks.push(request);
  }
  const idle = [...lanes].filter(([, marks]) => marks.length === 0).map(([engine]) => engine);
  for (const engine of idle.slice(IDLE)) lanes.delete(engine);
  const hidden = idle.length - IDLE;
  return h("div", {}, [
    legend(),
    laneList(lanes, now),
    hidden > 0 ? h("p", { class: "soft" }, `${plural(hidden, "more engine")} without one of the last requests`) : null,
  ]);
}

const KINDS: readonly (readonly [string, string])[] = [
  ["flying", "in flight"],
  ["hit4", "all cached"],
  ["hit2", "half"],
  ["hit0", "nothing"],
  ["hit-none", "not known"],
  ["failed", "failed"],
  ["left", "its client left"],
];

/** That a client left says nothing of the engine. */
function kindOf(result: string, share: number | undefined): string {
  if (result === "cancelled") return "left";
  if (result !== "ok") return "failed";
  return `hit${share === undefined ? "-none" : Math.round(share * 4)}`;
}

/** Each mark says the same in its label. */
function legend(): View {
  return h(
    "p",
    { class: "key-line soft", "aria-hidden": "true" },
    KINDS.map(([kind, name]) => h("span", { key: kind }, [h("i", { class: `mark ${kind}` }), name])),
  );
}

function laneList(lanes: ReadonlyMap<string, readonly RequestRow[]>, now: number): View {
  return h(
    "ol",
    { class: "lanes" },
    [...lanes].map(([engine, marks]) =>
      h("li", { key: engine }, [
        h("span", { class: "lane", title: engine }, engine),
        h("span", { class: "count soft" }, `${marks.filter(({ outcome }) => outcome === undefined).length} in flight`),
        marks.length === 0
          ? h("span", { class: "soft" }, "nothing yet")
          : h(
              "span",
              { class: "marks", onKeyDown: onArrow },
              marks.slice(0, MARKS).map((request, i) => mark(request, now, i === 0)),
            ),
      ]),
    ),
  );
}

/** A lane is one stop of the Tab key, or it would be long until the engines; arrows go from mark to mark. */
function onArrow(event: KeyboardEvent): void {
  const marks = [...(event.currentTarget as HTMLElement).querySelectorAll("a")];
  const at = marks.indexOf(document.activeElement as HTMLAnchorElement);
  const ways: Readonly<Record<string, number>> = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    Home: 0,
    End: marks.length - 1,
  };
  const next = marks[ways[event.key] ?? -1];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

function mark(request: RequestRow, now: number, isStop: boolean): View {
  const { id, outcome } = request;
  const share = shareOf(request);
  const kind = outcome === undefined ? "flying" : kindOf(outcome.result, share);
  const text = sentence(request, now);
  return h("a", {
    key: id,
    class: `mark ${kind}`,
    href: requestHref(id),
    title: text,
    "aria-label": text,
    tabIndex: isStop ? 0 : -1,
  });
}

/** Share of the prompt that was cached: as reported, else as predicted. */
export function shareOf({ promptTokens, predicted, outcome }: RequestRow): number | undefined {
  const all = outcome?.promptTokens ?? promptTokens;
  const cached = outcome?.cachedTokens ?? predicted;
  return all === undefined || all === 0 || cached === undefined ? undefined : Math.min(1, cached / all);
}

function sentence(request: RequestRow, now: number): string {
  const { model, worker, reason, outcome, at } = request;
  const cached = shareOf(request);
  const parts = [
    `${model}, ${ago(at, now)}`,
    worker === undefined ? "to no engine" : `to ${worker}`,
    ...(cached === undefined ? [] : [`${percent(cached)} cached`]),
    outcome === undefined
      ? "in flight"
      : outcome.result === "ok"
        ? `first token after ${duration(outcome.ttftMs ?? outcome.totalMs)}`
        : outcome.result.replaceAll("_", " "),
    ...(reason === undefined ? [] : [reason]),
  ];
  return parts.join("; ");
}
