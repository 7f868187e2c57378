import { Component, h as create, createRef } from "preact";
import type { History } from "./data.ts";
import { h, type View } from "./element.ts";
import { clockTime } from "./format.ts";

/** A column of the history as a line. */
export interface PlotLine {
  readonly name: string;
  readonly column: string;
}

interface PlotProps {
  readonly history: History;
  readonly lines: readonly PlotLine[];
  readonly format: (value: number | null | undefined) => string;
  readonly most: number;
  /** Another theme draws in other colours. */
  readonly theme: string;
  /** Read out in place of the picture. */
  readonly label: string;
}

type Columns = readonly (readonly (number | null)[])[];

/** The part of uPlot 1.6 that is used. */
interface UPlot {
  destroy(): void;
  setSize(size: { readonly width: number; readonly height: number }): void;
  setData(data: Columns): void;
}
type UPlotMaker = new (options: object, data: Columns, target: Element) => UPlot;

const HEIGHT = 190;
const COLOURS = ["--line-0", "--line-1", "--line-2"];

/** A chart by uPlot, which the page loads beside its own modules. */
class Plot extends Component<PlotProps> {
  readonly #box = createRef<HTMLDivElement>();
  #plot: UPlot | undefined;
  #resize: ResizeObserver | undefined;

  override componentDidMount(): void {
    this.#draw();
    this.#resize = new ResizeObserver(() => {
      const width = this.#box.current?.clientWidth ?? 0;
      if (width > 0) this.#plot?.setSize({ width, height: HEIGHT });
    });
    this.#resize.observe(this.#box.current!);
    // The browser's own setting may change while the page follows it.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.#redraw);
  }

  override componentDidUpdate(before: PlotProps): void {
    const { history, theme } = this.props;
    if (before.theme !== theme) this.#draw();
    else if (before.history !== history) this.#plot?.setData(this.#columns());
  }

  override componentWillUnmount(): void {
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.#redraw);
    this.#resize?.disconnect();
    this.#plot?.destroy();
  }

  override render(): View {
    return h(
      "div",
      { class: "plot", role: "img", "aria-label": this.props.label },
      h("div", { ref: this.#box, "aria-hidden": "true" }),
    );
  }

  readonly #redraw = (): void => this.#draw();

  #columns(): Columns {
    const { history, lines } = this.props;
    const ys = lines.map(({ column }) => history.columns[column] ?? []);
    const xs = (ys[0] ?? []).map((_, i) => (history.fromMs + i * history.stepMs) / 1000);
    return [xs, ...ys];
  }

  #draw(): void {
    const { uPlot: UPlot } = globalThis as { readonly uPlot?: UPlotMaker };
    const box = this.#box.current;
    if (box === null || UPlot === undefined) return;
    this.#plot?.destroy();
    const { lines, format, most } = this.props;
    const colour = (name: string): string => resolved(box, name);
    const axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--grid"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    this.#plot = new UPlot(
      {
        width: Math.max(200, box.clientWidth),
        height: HEIGHT,
        cursor: { y: false, drag: { setScale: false, x: false } },
        scales: { y: { range: (_: unknown, _low: number, high: number) => [0, Math.max(most, (high || 1) * 1.05)] } },
        axes: [
          { ...axis, size: 32, values: "{HH}:{mm}" },
          {
            ...axis,
            size: 64,
            values: (_: unknown, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? "" : format(tick))),
          },
        ],
        series: [
          {
            label: "At",
            value: (_: unknown, seconds: number | null) => (seconds == null ? "now" : clockTime(seconds * 1000)),
          },
          ...lines.map(({ name }, i) => ({
            label: name,
            stroke: colour(COLOURS[i]!),
            width: 1.75,
            // Told apart without colours too.
            ...(i < 2 ? {} : { dash: [2, 3] }),
            points: { show: true, size: 5, filter: lonely },
            // Nobody points at a time: the newest figure.
            value: (plot: { readonly data: Columns }, value: number | null, n: number, at?: number | null) =>
              format(at == null ? plot.data[n]?.findLast((each) => each !== null) : value),
          })),
        ],
      },
      this.#columns(),
      box,
    );
  }
}

/** A chart as part of a view. */
export const plotView = (props: PlotProps): View => create(Plot, props) as unknown as View;

/** The points with none beside them: no line would show them. */
export function lonely(plot: { readonly data: Columns }, series: number): number[] {
  const ys = plot.data[series] ?? [];
  return ys.flatMap((y, i) => (y !== null && (ys[i - 1] ?? null) === null && (ys[i + 1] ?? null) === null ? [i] : []));
}

/** A colour of the style sheet as the canvas wants it. */
function resolved(within: Element, name: string): string {
  const probe = document.createElement("i");
  probe.className = `probe${name}`;
  within.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
