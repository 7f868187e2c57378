import type { ComponentChildren } from "preact";
import { h, type View } from "./element.ts";
import { percent } from "./format.ts";

/** A figure with its name. */
export function figure(name: string, value: ComponentChildren, about?: string): View {
  return h("div", { class: "figure", title: about }, [h("dt", {}, name), h("dd", {}, value)]);
}

/** A share as a bar with its number; the number is what is read out. */
export function bar(share: number | undefined, kind = ""): View {
  const width = Math.max(0, Math.min(1, share ?? 0));
  return h("span", { class: `bar ${kind}` }, [
    h("svg", { "aria-hidden": "true", viewBox: "0 0 100 6", preserveAspectRatio: "none" }, [
      h("rect", { class: "all", width: 100, height: 6, rx: 3 }),
      share === undefined ? null : h("rect", { class: "part", width: width * 100, height: 6, rx: 3 }),
    ]),
    h("span", { class: "num" }, percent(share)),
  ]);
}

const STATE_WORDS: Readonly<Record<string, string>> = {
  ready: "ok",
  starting: "busy",
  draining: "warn",
  down: "bad",
  unloaded: "off",
  asleep: "off",
};

/** The state in a word and a colour: the colour alone says nothing. */
export function stateTag(state: string, kind = STATE_WORDS[state] ?? "off"): View {
  return h("span", { class: `tag ${kind}` }, state);
}

/** A column: a text, or figures, which stand below each other by their last digit. */
export interface Column {
  readonly head: ComponentChildren;
  readonly ofFigures: true;
}

export const figures = (head: ComponentChildren): Column => ({ head, ofFigures: true });

/** A row: its first cell is its head. */
export interface Row {
  readonly key: string;
  readonly cells: readonly ComponentChildren[];
  readonly kind?: string | undefined;
}

/** A table that may be wider than the screen: it scrolls, by keys too. */
export function table(name: string, columns: readonly (string | Column)[], rows: readonly Row[], empty: string): View {
  if (rows.length === 0) return h("p", { class: "soft" }, empty);
  const side = (column: string | Column | undefined): string | undefined =>
    typeof column === "object" ? "num" : undefined;
  const headOf = (column: string | Column): ComponentChildren => (typeof column === "object" ? column.head : column);
  return h("div", { class: "scroll", role: "region", "aria-label": name, tabIndex: 0 }, [
    h("table", {}, [
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => h("th", { scope: "col", class: side(column) }, headOf(column))),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(({ key, cells: [first, ...rest], kind }) =>
          h("tr", { key, class: kind }, [
            h("th", { scope: "row" }, first),
            ...rest.map((cell, i) => h("td", { class: side(columns[i + 1]) }, cell)),
          ]),
        ),
      ),
    ]),
  ]);
}

export const row = (key: string, cells: readonly ComponentChildren[], kind?: string): Row => ({ key, cells, kind });

export function section(title: string, about: string, body: ComponentChildren, kind = "card"): View {
  return h("section", { class: kind }, [
    h("h2", {}, title),
    about === "" ? null : h("p", { class: "soft" }, about),
    body,
  ]);
}
