import type { ComponentChildren } from "preact";
import type { Attempt, Candidate, Chosen, Dashboard, Decision, RequestRow, Terms } from "./data.ts";
import { h, type View } from "./element.ts";
import { shareOf } from "./flow-map.ts";
import { bytes, clockTime, count, duration, percent } from "./format.ts";
import { bar, figures, type Row, row, section, stateTag, table } from "./parts.ts";
import { requestHref, type State } from "./state.ts";

/** The last requests, a line each. */
export function requestsView({ requests }: Dashboard): View {
  return section(
    "Last requests",
    "The newest first. The router keeps figures of the last 2,000, never prompts. Open one for its decision term by term.",
    table(
      "Last requests",
      [
        "Time",
        "Outcome",
        "Model",
        "Engine",
        figures("Prompt"),
        figures("Predicted"),
        "Cached",
        figures("TTFT"),
        figures("Whole"),
        "Why there",
      ],
      requests.map(requestRow),
      "None yet. Send one from Chat.",
    ),
  );
}

function requestRow(request: RequestRow): Row {
  const { id, at, model, worker, prefill, tries, outcome, promptTokens, predicted, reason, unmatched } = request;
  const prompt = outcome?.promptTokens ?? promptTokens;
  return row(id, [
    h("a", { href: requestHref(id) }, clockTime(at)),
    outcomeTag(outcome),
    model,
    [prefill === undefined ? null : `${prefill} → `, worker ?? "–", tries > 1 ? ` (try ${tries})` : null],
    count(prompt),
    predicted === undefined ? "–" : count(predicted),
    outcome?.cachedTokens === undefined ? "–" : bar(shareOf(request), "hit"),
    duration(outcome?.ttftMs),
    duration(outcome?.totalMs),
    h(
      "span",
      { class: "wrap" },
      unmatched === undefined ? (reason ?? outcome?.error ?? "") : `${reason ?? ""} (not matched: ${unmatched})`,
    ),
  ]);
}

function outcomeTag(outcome: Decision["outcome"]): View {
  if (outcome === undefined) return stateTag("in flight", "busy");
  const status = outcome.status === undefined || outcome.status === 200 ? "" : ` ${outcome.status}`;
  return stateTag(
    outcome.result.replaceAll("_", " ") + status,
    outcome.result === "ok" ? "ok" : outcome.result === "upstream_error" ? "bad" : "warn",
  );
}

/** Why a request went where it went, term by term. */
export function decisionView(id: string, decision: State["decision"]): View {
  const back = h("p", {}, h("a", { href: "#/requests" }, "← All requests"));
  if (decision === undefined || decision.id !== id)
    return h("div", {}, [back, h("p", { class: "soft" }, "Asking the router …")]);
  if ("error" in decision) return h("div", {}, [back, h("p", { class: "note warn" }, decision.error)]);
  return h("div", { class: "stack" }, [
    back,
    section(`Request ${id}`, "", summary(decision)),
    ...decision.attempts.map((attempt, i) => attemptSection(attempt, i, decision.attempts.length)),
    decision.attempts.length === 0 ? h("p", { class: "note warn" }, "No engine was chosen for it.") : null,
  ]);
}

function summary(d: Decision): View {
  const o = d.outcome;
  const prompt = o?.promptTokens ?? d.promptTokens;
  const predicted = d.attempts.at(-1)?.predictedCachedTokens;
  const pairs: (readonly [string, ComponentChildren] | undefined)[] = [
    ["When", clockTime(d.at)],
    ["What", `${d.path}${d.stream ? ", streamed" : ""}`],
    ["Model", d.model],
    d.subject === undefined ? undefined : ["Key", d.subject],
    d.traceId === undefined ? undefined : ["Trace", d.traceId],
    ["Outcome", outcomeTag(o)],
    o?.error === undefined ? undefined : ["Said", o.error],
    ["Prompt", `${count(prompt)} tokens, ${bytes(d.promptBytes)}`],
    predicted === undefined
      ? undefined
      : [
          "Predicted cached",
          `${count(predicted)} tokens${prompt ? ` (${percent(Math.min(1, predicted / prompt))})` : ""}`,
        ],
    o?.cachedTokens === undefined
      ? undefined
      : ["Really cached", `${count(o.cachedTokens)} tokens${prompt ? ` (${percent(o.cachedTokens / prompt)})` : ""}`],
    o?.prediction === undefined
      ? undefined
      : [
          "The prediction was",
          `${o.prediction.result.replaceAll("_", " ")}${o.prediction.reason === "" ? "" : `: ${o.prediction.reason}`}`,
        ],
    d.unmatched === undefined ? undefined : ["Not matched", d.unmatched],
    d.waitedMs === undefined ? undefined : ["Waited for its model", duration(d.waitedMs)],
    ["Decided in", d.decisionUs === undefined ? "–" : `${count(d.decisionUs)} µs, policy ${d.policy}`],
    ["First token", duration(o?.ttftMs)],
    [
      "Whole",
      `${duration(o?.totalMs)}${o?.completionTokens === undefined ? "" : `, ${count(o.completionTokens)} tokens generated`}`,
    ],
  ];
  return h(
    "dl",
    { class: "pairs wide" },
    pairs.flatMap((pair) => (pair === undefined ? [] : [h("dt", {}, pair[0]), h("dd", {}, pair[1])])),
  );
}

function attemptSection(attempt: Attempt, i: number, all: number): View {
  const { prefill, whole, heldBack, failed } = attempt;
  return section(all > 1 ? `Try ${i + 1}: ${attempt.worker}` : `Chosen: ${attempt.worker}`, "", [
    prefill === undefined
      ? null
      : [h("h3", {}, `Prefill on ${prefill.worker}`), chosen(prefill), h("h3", {}, `Decode on ${attempt.worker}`)],
    chosen(attempt),
    whole === undefined ? null : h("p", { class: "soft" }, `Computed by one engine: ${whole}`),
    ...Object.entries(heldBack ?? {}).map(([worker, why]) =>
      h("p", { class: "soft" }, `${worker} was passed over: ${why}`),
    ),
    failed === undefined ? null : h("p", { class: "note bad" }, `It did not stay there: ${failed}`),
  ]);
}

const TERMS: readonly (readonly [keyof Terms | "othersMs", string, string])[] = [
  ["baseMs", "Base", "What a request costs that has nothing to compute"],
  ["waitMs", "Waiting", "Prompts that were sent there before"],
  ["fetchMs", "Fetching", "Cached blocks from a slower tier"],
  ["prefillMs", "Prefill", "What is not cached"],
  ["interferenceMs", "Interference", "Decodes that share its steps"],
  ["othersMs", "Others", "What this prompt costs those who come after it"],
];

const termOf = (c: Candidate, term: keyof Terms | "othersMs"): number =>
  term === "othersMs" ? c.othersMs : c.terms[term];

function chosen({ worker, reason, candidates }: Chosen): View {
  const longest = Math.max(1e-9, ...candidates.map((c) => TERMS.reduce((sum, [term]) => sum + termOf(c, term), 0)));
  const sorted = [...candidates].sort((a, b) => a.score - b.score);
  return h("div", {}, [
    h("p", {}, ["Because: ", h("strong", {}, reason)]),
    table(
      `Candidates for ${worker}`,
      [
        "Engine",
        figures("Score"),
        figures("TTFT"),
        ...TERMS.map(([, name, about]) => figures(h("abbr", { title: about }, name))),
        figures("Cached"),
        figures("To compute"),
        figures("In flight"),
        "Sum",
      ],
      sorted.map((c) =>
        row(
          c.worker,
          [
            c.worker === worker
              ? h("strong", {}, [c.worker, " ✓", h("span", { class: "hidden" }, " chosen")])
              : c.worker,
            c.score.toFixed(1),
            duration(c.ttftMs),
            ...TERMS.map(([term]) => duration(termOf(c, term))),
            count(c.cachedTokens),
            count(c.uncachedTokens),
            String(c.inFlight),
            stackedBar(c, longest),
          ],
          c.worker === worker ? "chosen" : undefined,
        ),
      ),
      "Nobody else was asked.",
    ),
    h(
      "p",
      { class: "key-line soft", "aria-hidden": "true" },
      TERMS.map(([term, name]) => h("span", {}, [h("i", { class: `dot ${term}` }), name])),
    ),
  ]);
}

/** The terms beside each other; the numbers stand in the same row. */
function stackedBar(c: Candidate, longest: number): View {
  let x = 0;
  const parts = TERMS.map(([term]) => {
    const width = (termOf(c, term) / longest) * 100;
    const rect = h("rect", { class: term, x, width, height: 10 });
    x += width;
    return rect;
  });
  return h("svg", { class: "terms", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
}
