import type { History } from "./data.ts";
import { h, type View } from "./element.ts";
import { duration, percent, rate } from "./format.ts";
import { type PlotLine, plotView } from "./plot.ts";
import type { Actions, State } from "./state.ts";

interface Chart {
  readonly title: string;
  readonly about: string;
  readonly format: (value: number | null | undefined) => string;
  readonly lines: readonly PlotLine[];
  /** The axis ends here at least. */
  readonly most?: number;
}

const CHARTS: readonly Chart[] = [
  {
    title: "Time to first token",
    about: "From the request's last byte.",
    format: duration,
    lines: [
      { name: "p50", column: "ttftP50" },
      { name: "p90", column: "ttftP90" },
    ],
  },
  {
    title: "Time between tokens",
    about: "Mean of each streamed answer.",
    format: duration,
    lines: [
      { name: "p50", column: "itlP50" },
      { name: "p90", column: "itlP90" },
    ],
  },
  {
    title: "Cached share of prompts",
    about: "As engines reported, and as predicted.",
    format: percent,
    lines: [
      { name: "real", column: "hitReal" },
      { name: "predicted", column: "hitPredicted" },
    ],
    most: 1,
  },
  {
    title: "In flight and waiting",
    about: "The most at a time.",
    format: rate,
    lines: [
      { name: "in flight", column: "inFlight" },
      { name: "waiting", column: "queued" },
    ],
    most: 4,
  },
  {
    title: "Generated tokens a second",
    about: "By all engines.",
    format: rate,
    lines: [{ name: "tokens/s", column: "generatedPerS" }],
  },
  {
    title: "Requests a second",
    about: "All, refused, and failed at an engine.",
    format: rate,
    lines: [
      { name: "all", column: "requestsPerS" },
      { name: "refused", column: "refusedPerS" },
      { name: "failed", column: "errorsPerS" },
    ],
  },
];

const RANGES: readonly (readonly [number, string])[] = [
  [15, "15 min"],
  [60, "1 h"],
  [360, "6 h"],
  [1_440, "24 h"],
];

/** The last day, or less. */
export function chartsView({ history, minutes, theme }: State, act: Actions): View {
  return h("div", { class: "stack" }, [
    h("fieldset", { class: "ranges" }, [
      h("legend", {}, "The last"),
      ...RANGES.map(([value, name]) =>
        h("label", { key: value }, [
          h("input", {
            type: "radio",
            name: "range",
            checked: minutes === value,
            onChange: () => act.setMinutes(value),
          }),
          h("span", {}, name),
        ]),
      ),
    ]),
    h("p", { class: "soft" }, "Kept by this router since it started, a day at most."),
    history === undefined
      ? h("p", { class: "soft" }, "Asking the router …")
      : h(
          "div",
          { class: "grid charts" },
          CHARTS.map((chart) => chartCard(chart, history, theme)),
        ),
  ]);
}

function chartCard({ title, about, format, lines, most }: Chart, history: History, theme: string): View {
  return h("figure", { class: "card", key: title }, [
    h("figcaption", {}, [h("strong", {}, title), " ", h("span", { class: "soft" }, about)]),
    plotView({ history, lines, format, most: most ?? 0, theme, label: describe(title, lines, history, format) }),
  ]);
}

/** What the chart shows, for those who do not see it. */
export function describe(
  title: string,
  lines: readonly PlotLine[],
  { columns }: History,
  format: Chart["format"],
): string {
  const parts = lines.map(({ name, column }) => {
    const values = (columns[column] ?? []).filter((value) => value !== null);
    if (values.length === 0) return `${name}: no figures`;
    return `${name}: now ${format(values.at(-1))}, least ${format(Math.min(...values))}, most ${format(Math.max(...values))}`;
  });
  return `${title}. ${parts.join("; ")}`;
}
